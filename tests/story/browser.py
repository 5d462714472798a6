"""Chromium in the stories: opens pages, fills in forms, checks WCAG and layout."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal
from urllib.parse import urlsplit

from allauth.mfa import app_settings
from allauth.mfa.totp.internal import auth
from axe_playwright_python.base import AXE_SCRIPT
from django.urls import Resolver404, resolve
from playwright.sync_api import Page, ViewportSize, sync_playwright

from tests.machine import needs

#: Options of Chromium in a container without a screen.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
#: Milliseconds, on a machine that does much else.
_TIMEOUT = 120_000
#: Options without which axe also reports every element that obeys a rule.
_QUICK = {"resultTypes": ["violations"], "preload": False}
#: The rules of axe that are checked: those of the WCAG, levels A and AA.
_RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], **_QUICK}
#: Those of them that depend on colors: the elements are the same in light and dark colors.
_RULES_OF_COLORS = {"runOnly": ["color-contrast", "link-in-text-block"], **_QUICK}
#: Runs axe; returns the rule of each violation and its first element, not the rest of the report.
_RUN_AXE = """options => axe.run(document, options).then(report => report.violations.map(
    ({id, impact, help, nodes}) => ({id, impact, help, html: nodes[0].html.slice(0, 200)})))"""

#: The size of a phone's window.
PHONE: ViewportSize = {"width": 390, "height": 844}
#: How far a page can be scrolled to the right, and the first elements that reach out of the window
#: or have text that does, without a box that scrolls.
_BEYOND = """() => {
    const width = window.innerWidth, scrolled = document.documentElement.scrollWidth;
    const clips = each => getComputedStyle(each).overflowX !== "visible";
    const isFree = each => each === document.body || !(clips(each) || !isFree(each.parentElement));
    const isFilled = each => each.scrollWidth > each.clientWidth + 1;
    const reaches = each => {
        const box = each.getBoundingClientRect();
        return box.right > width + 1 || (isFilled(each) && box.left + each.scrollWidth > width + 1);
    };
    const beyond = [...document.body.querySelectorAll("*")].filter(reaches)
        .filter(each => isFree(each.parentElement));
    return [scrolled - width, beyond.slice(0, 3).map(each => each.outerHTML.slice(0, 120))];
}"""
#: The largest cumulative layout shift of a page: a tenth of what Web Vitals rate as good.
_MAX_SHIFT = 0.01
#: After the next frame, the sum of the page's layout shifts without those that follow an input, and
#: the first elements that moved.
_SHIFTS = """() => new Promise(resolve => requestAnimationFrame(() => setTimeout(() => {
    const observer = new PerformanceObserver(() => {});
    observer.observe({type: "layout-shift", buffered: true});
    const shifts = observer.takeRecords().filter(each => !each.hadRecentInput);
    observer.disconnect();
    const moved = shifts.flatMap(each => each.sources.map(({node}) => node)).filter(Boolean);
    const shown = moved.slice(0, 3).map(each => (each.outerHTML ?? each.data).slice(0, 120));
    resolve([shifts.reduce((sum, each) => sum + each.value, 0), shown]);
})))"""
#: The message of Chromium's console for a page or a file with an error status.
_STATUS = re.compile(r"Failed to load resource: the server responded with a status of (\d+)")
#: Waits until the colors of another scheme have faded out.
_END_OF_FADING = (
    "Promise.allSettled(document.getAnimations().map(each => each.finished)).then(() => null)"
)


@contextmanager
def opened(url: str, *, statuses: Collection[int] = (), **options: Any) -> Iterator[Page]:
    """Yield a page of a new browser at a site; its console must show no error and no warning.

    A violation of the Content-Security-Policy is such an error.  So is a page with an error status
    that is not in `statuses`.  `options` are those of Playwright's `new_context`, for example the
    size of the window.
    """
    printed: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=needs("chromium"), args=FLAGS)
        context = browser.new_context(base_url=url, service_workers="block", **options)
        context.set_default_timeout(_TIMEOUT)
        page = context.new_page()

        def note(message: Any) -> None:
            status = _STATUS.match(message.text)
            if status is not None and int(status[1]) in statuses:
                return
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
    value = auth.hotp_value(secret, int(time.time()) // app_settings.TOTP_PERIOD)
    return str(auth.format_hotp_value(value))


def violations(page: Page) -> list[str]:
    """Return the page's violations of the WCAG, in light and in dark colors, when it is loaded.

    Each has its rule and its first element.
    """
    # A click returns when the next page's headers arrive: the document may have no element yet.
    page.wait_for_load_state()
    # Sent once per page: it has half a million characters.
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    faults = []
    schemes: tuple[tuple[Literal["light", "dark"], dict[str, Any]], ...] = (
        ("light", _RULES),
        ("dark", _RULES_OF_COLORS),
    )
    for scheme, rules in schemes:
        page.emulate_media(color_scheme=scheme)
        page.evaluate(_END_OF_FADING)
        for violation in page.evaluate(_RUN_AXE, rules):
            rule = f"{scheme}: {violation['id']} ({violation['impact']}): {violation['help']}"
            faults.append(f"{page.url}: {rule}: {violation['html']}")
    return faults


def layout_shift(page: Page) -> list[str]:
    """Return a fault if elements moved without an input since the page was opened."""
    shift, elements = page.evaluate(_SHIFTS)
    return [f"{page.url}: layout shift {shift:.4f}: {elements}"] if shift > _MAX_SHIFT else []


def overflow(page: Page) -> list[str]:
    """Return a fault if the page can be scrolled to the right in the window of a phone."""
    window = page.viewport_size
    assert window is not None
    page.set_viewport_size(PHONE)
    beyond, elements = page.evaluate(_BEYOND)
    page.set_viewport_size(window)
    return [f"{page.url}: {beyond} pixels wider than a phone: {elements}"] if beyond > 0 else []


class Visits:
    """Visits pages in a browser, and collects their faults and the names of their URLs."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.faults: list[str] = []
        self.names: set[str] = set()

    def open(self, *paths: str) -> None:
        """Open and check pages; none may lead to another page, such as the log-in."""
        for path in paths:
            self.page.goto(path)
            assert urlsplit(self.page.url).path == urlsplit(path).path, f"{path}: {self.page.url}"
            self.check()

    def check(self) -> None:
        """Check the page in the browser: the WCAG, its layout shift, its width on a phone."""
        # An unknown address shows the page of the error 404.
        with suppress(Resolver404):
            self.names.add(resolve(urlsplit(self.page.url).path).view_name)
        # The layout shift after axe, which gives late scripts their time.
        self.faults += violations(self.page) + layout_shift(self.page) + overflow(self.page)

    def press(self, button: str, **fields: str) -> None:
        """Send the form of the page as `submit`, and check the page that follows."""
        submit(self.page, button, **fields)
        self.check()
