"""Opens pages in Chromium, and writes their pictures."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

from demo.pictures.album import Picture
from demo.pictures.stage import SITE, PicturesError

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_FLAGS: Final = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-proxy-server"),
    # Otherwise text has colored edges, which differ by screen and make files larger.
    *("--disable-lcd-text", "--hide-scrollbars"),
)
_SCHEMES: Final[Mapping[str, Literal["light", "dark"]]] = {"light": "light", "dark": "dark"}
#: Milliseconds, on a machine that does much else.
_TIMEOUT: Final = 60_000


def find_chromium() -> str:
    """Return the path of Chromium; raises PicturesError with the name of its package."""
    if path := shutil.which("chromium"):
        return path
    msg = "There is no program chromium. Hint: apt install chromium."
    raise PicturesError(msg)


@contextmanager
def opened(port: int) -> Iterator[Browser]:
    """Yield a browser in which the site is the server that listens on `port`."""
    from playwright.sync_api import sync_playwright

    rule = f"--host-resolver-rules=MAP {SITE} 127.0.0.1:{port}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=[*_FLAGS, rule])
        yield browser
        browser.close()


def take(
    browser: Browser,
    picture: Picture,
    *,
    ids: Mapping[str, int],
    log_in: tuple[str, str] | None,
) -> None:
    """Write the file of a picture; `log_in` is an address with its password, None for visitors.

    Raises PicturesError if the page is answered with an error.
    """
    context = browser.new_context(
        base_url=f"http://{SITE}",
        color_scheme=_SCHEMES[picture.scheme],
        locale="en-US",
        # Otherwise a picture may be taken while the page scrolls to an anchor.
        reduced_motion="reduce",
        timezone_id="UTC",
        viewport={"width": picture.width, "height": picture.height},
    )
    context.set_default_timeout(_TIMEOUT)
    page = context.new_page()
    if log_in is not None:
        _log_in(page, *log_in)
    path = picture.url_path(ids)
    reply = page.goto(path)
    if reply is None or not reply.ok:
        msg = f"{path} was answered with status {reply.status if reply else 'none'}."
        raise PicturesError(msg)
    picture.file.parent.mkdir(exist_ok=True)
    page.screenshot(path=picture.file, animations="disabled", caret="hide")
    context.close()


def _log_in(page: Page, email: str, password: str) -> None:
    page.goto("/account/login/")
    page.fill("main [name=login]", email)
    page.fill("main [name=password]", password)
    page.click("main button:text-is('Log in')")
    page.wait_for_load_state()
