"""Chromium in the stories: opens pages, fills in forms, checks accessibility."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from allauth.mfa.totp.internal import auth
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

from tests.machine import needs

#: Options of Chromium in a container without a screen.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
#: Milliseconds, on a machine that does much else.
_TIMEOUT = 120_000
#: The rules of axe that are checked: those of the WCAG, levels A and AA.
_OPTIONS = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], "preload": False}

#: Waits until the colors of another scheme have faded out.
_END_OF_FADING = (
    "Promise.allSettled(document.getAnimations().map(each => each.finished)).then(() => null)"
)


@contextmanager
def opened(url: str, **options: Any) -> Iterator[Page]:
    """Yield a page of a new browser at a site; its console must show no error and no warning.

    A violation of the Content-Security-Policy is such an error.  `options` are those of
    Playwright's `new_context`, for example the size of the window.
    """
    printed: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=needs("chromium"), args=FLAGS)
        context = browser.new_context(base_url=url, service_workers="block", **options)
        context.set_default_timeout(_TIMEOUT)
        page = context.new_page()

        def note(message: Any) -> None:
            if message.type in {"error", "warning"}:
                printed.append(f"{page.url}: {message.text}")

        page.on("console", note)
        page.on("pageerror", lambda error: printed.append(f"{page.url}: {error}"))
        yield page
        browser.close()
    assert printed == [], printed


def submit(page: Page, button: str, **fields: str) -> None:
    """Fill in the form of the page and press its button."""
    for name, text in fields.items():
        page.fill(f"main [name={name}]", text)
    page.click(f"main button:text-is('{button}')")


def code_of(secret: str) -> str:
    """Return the code that an authenticator app with this secret shows now."""
    value = auth.hotp_value(secret, next(auth.yield_hotp_counters_from_time()))
    return str(auth.format_hotp_value(value))


def violations(page: Page) -> list[str]:
    """Return the page's violations of the WCAG, in light and in dark colors.

    Each has its rule and its first element.
    """
    faults = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.evaluate(_END_OF_FADING)
        for violation in Axe().run(page, options=_OPTIONS).response["violations"]:
            rule = f"{scheme}: {violation['id']} ({violation['impact']}): {violation['help']}"
            faults.append(f"{page.url}: {rule}: {violation['nodes'][0]['html'][:200]}")
    return faults
