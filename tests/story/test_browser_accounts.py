"""A person signs up in a browser, and attaches a stock client."""

from __future__ import annotations

import email
import re
from email import policy

import pytest

from daemons.management.processes import wait_until
from tests.story.browser import opened, submit

pytestmark = [pytest.mark.story, pytest.mark.lengthy, pytest.mark.needs("chromium", "boinc")]

EMAIL, NEW_EMAIL = "ada@example.org", "ada.lovelace@example.org"
PASSWORD, NEW_PASSWORD = "correct horse", "battery staple"


@pytest.fixture
def project(make_project):
    made = make_project(DJANGO_SETTINGS_MODULE="tests.story.mail_settings")
    made.start()
    return made


@pytest.fixture
def page(project):
    """A page of a browser at the project's site."""
    with opened(project.url) as page:
        yield page


def mailed_link(project, address: str, within: str) -> str:
    """Return the path of the link that was mailed to an address."""
    for path in (project.folder / "var" / "mails").iterdir():
        for text in path.read_bytes().split(b"-" * 79):
            mail = email.message_from_bytes(text.strip(), policy=policy.default)
            if mail["To"] == address and (link := re.search(rf"/account/{within}/\S+", str(mail))):
                return link[0]
    raise AssertionError(f"No mail to {address} has a link to {within}.")


def key_of(client, address: str, password: str) -> str | None:
    """Look up the account with boinccmd; return its key, or None if the log-in is refused."""
    done = client._boinccmd("--lookup_account", client.project.url, address, password)
    found = re.search(r"account key: (\w+)", done.stdout + done.stderr)
    return found[1] if found else None


def test_account_made_in_a_browser_serves_a_stock_client_after_each_change(
    project, page, stock_client
):
    page.goto("/")
    page.click("text=Your account")
    page.click("text=Create one")
    fields = {"email": EMAIL, "name": "Ada", "password1": PASSWORD, "password2": PASSWORD}
    submit(page, "Create the account", **fields)
    assert page.inner_text("h1") == "Ada"

    client = stock_client(project, "ada")
    key = key_of(client, EMAIL, PASSWORD)
    assert key is not None
    client.attach_with(key)
    assert wait_until(lambda: project.sql("SELECT 1 FROM host"), within=120, look_again=0.5)

    page.goto("/account/password/")
    changed = {"oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    submit(page, "Change the password", **changed)
    assert "Your password is changed" in page.inner_text(".messages")
    assert key_of(client, EMAIL, NEW_PASSWORD) == key
    assert key_of(client, EMAIL, PASSWORD) is None

    page.goto("/account/email/")
    submit(page, "Send the link", email=NEW_EMAIL, password=NEW_PASSWORD)
    assert key_of(client, EMAIL, NEW_PASSWORD) == key
    page.goto(mailed_link(project, NEW_EMAIL, "email/new"))
    submit(page, "Change the address")
    assert f"The address is now {NEW_EMAIL}" in page.inner_text(".messages")
    assert key_of(client, NEW_EMAIL, NEW_PASSWORD) == key
    assert key_of(client, EMAIL, NEW_PASSWORD) is None

    # The attached client notices none of this: it uses the account key.
    [before] = project.sql("SELECT rpc_at FROM host")
    later = "SELECT 1 FROM host WHERE rpc_at > %s"
    client.update()
    assert wait_until(lambda: project.sql(later, before["rpc_at"]), within=120, look_again=0.5)
    assert "account key" not in client.notices()
    page.context.clear_cookies()
    page.goto("/account/login/?next=/account/keys/")
    submit(page, "Log in", login=NEW_EMAIL, password=NEW_PASSWORD)
    assert page.inner_text("code.secret >> nth=0") == key
    assert "0 violations" in project.fsck()
