"""A member of staff adds a security key in a browser, and logs in with it."""

from __future__ import annotations

import pytest

from tests.story.browser import Visits, opened, submit
from tests.story.site_pages import OF_KEYS
from tests.story.volunteers import PASSWORD

pytestmark = [pytest.mark.story, pytest.mark.lengthy, pytest.mark.needs("chromium")]

EMAIL = "chief@example.org"
#: A key with a button and without a PIN, as Chromium's virtual authenticator.
KEY = {
    "protocol": "ctap2",
    "transport": "usb",
    "hasResidentKey": False,
    "hasUserVerification": False,
    "automaticPresenceSimulation": True,
}


@pytest.fixture
def project(make_project):
    """A project at localhost, where browsers use security keys without https."""
    made = make_project(STAFF_SECOND_FACTOR="true")
    made.environment["MASTER_URL"] = made.url = f"http://localhost:{made.port}/"
    made.start()
    made.manage("create_account", EMAIL, "--password", PASSWORD, "--staff")
    return made


def log_in(page) -> None:
    page.goto("/admin/")
    submit(page, "Log in", login=EMAIL, password=PASSWORD)


def test_security_key_opens_the_administration(project):
    with opened(project.url) as page:
        visits = Visits(page)
        devtools = page.context.new_cdp_session(page)
        devtools.send("WebAuthn.enable")
        log_in(page)
        page.click("text=Use a security key or a passkey instead")
        visits.check()

        page.evaluate("void (navigator.credentials.create = () => Promise.reject(new Error()))")
        page.click("text=Add the key")
        page.wait_for_selector("#key-problem:visible")
        visits.check()
        page.reload()
        added = devtools.send("WebAuthn.addVirtualAuthenticator", {"options": KEY})
        submit(page, "Add the key", name="The blue one")
        page.wait_for_selector("text=Each code replaces the second factor once")
        assert page.inner_text("ul.codes").count("\n") == 9
        page.goto("/account/two-factor/")
        assert "The blue one, added" in page.inner_text("main")
        visits.check()

        page.context.clear_cookies()
        log_in(page)
        page.wait_for_selector("text=Use your security key, or enter a code below")
        visits.check()
        submit(page, "Use the security key")
        page.wait_for_selector("text=Log out")
        page.goto("/admin/")
        assert page.url == f"{project.url}admin/"
        assert devtools.send("WebAuthn.getCredentials", added)["credentials"][0]["signCount"] > 1
        visits.open("/account/two-factor/keys/reauthenticate/", "/account/two-factor/")
        page.click("a[aria-label='Remove The blue one']")
        assert page.inner_text("h1") == "Remove a security key"
        visits.check()
    assert visits.faults == [], "\n".join(visits.faults)
    assert visits.names >= OF_KEYS
