"""The life of a volunteer's account in a browser, with an attached stock client."""

from __future__ import annotations

import email
import json
import re
from email import policy
from pathlib import Path

import pytest

from daemons.management.processes import wait_until
from tests.story.browser import layout_shift, opened, submit, violations
from tests.story.test_stock_replies import ask_until

pytestmark = [pytest.mark.story, pytest.mark.lengthy, pytest.mark.needs("chromium", "boinc")]

FOUNDER = "grace@example.org"
EMAIL, NEW_EMAIL = "ada@example.org", "ada.lovelace@example.org"
PASSWORD, NEW_PASSWORD, LAST_PASSWORD = "correct horse", "battery staple", "purple elephant"


@pytest.fixture
def project(make_project):
    made = make_project(DJANGO_SETTINGS_MODULE="tests.story.mail_settings", PURGE_AFTER="3600")
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


def sign_up(page, name: str, address: str) -> None:
    """Create an account on the site; the browser is then logged in."""
    page.goto("/")
    page.click("text=Your account")
    page.click("text=Create one")
    fields = {"email": address, "name": name, "password1": PASSWORD, "password2": PASSWORD}
    submit(page, "Create the account", **fields)
    assert page.inner_text("h1") == name


def is_shown(page, path: str, text: str) -> bool:
    """Open a page; return whether its main part contains the text."""
    page.goto(path)
    return text in page.inner_text("main")


def see_the_work(project, page, client) -> None:
    """Wait until a result of the client is paid, and follow it from the computer's page."""
    [name] = project.submit({"a": "31\n"}, seconds=2, quorum=1)
    paid = "SELECT count(*) FROM result WHERE granted_credit > 0"
    ask_until(client, lambda: project.count(paid) == 1, within=120, what="the result is paid")
    [host], [result] = project.sql("SELECT id FROM host"), project.sql("SELECT id FROM result")
    page.goto("/account/")
    page.click("dd:has-text('Their work') a")
    page.click("tbody th a")
    assert page.url.endswith(f"/account/computers/{host['id']}/")
    assert page.inner_text("dl.tiles div:has-text('results in progress') dd") == "0"
    assert "No work: the project had no results to send" in page.inner_text(".decision >> nth=0")
    page.click("text=Results of this computer")
    assert page.inner_text("tbody .tag") == "valid"
    page.click("tbody th a")
    assert page.url.endswith(f"/account/results/{result['id']}/")
    assert f"{name}_0" in page.inner_text("main")
    assert "7.50 by the rule" in page.inner_text("section:has-text('Credit')")


def sort_without_a_page_load(project, page) -> None:
    """Sort the teams: their rows and the address change, and the page is not loaded again."""
    project.sql(
        "INSERT INTO team (name, kind, url, description, country, joinable, total_credit,"
        " expavg_credit, created_at) VALUES ('Another', 0, '', '', '', true, 0, 0, now())"
    )
    page.goto("/teams/")
    page.evaluate("document.body.dataset.loaded = 'once'")
    names = page.locator("#list tbody th a")
    for link, ordered in (
        ("?sort=name", ["Another", "The primes"]),
        ("?sort=-name", ["The primes", "Another"]),
    ):
        page.click("#sort-name")
        page.wait_for_url(f"**/teams/{link}")
        page.wait_for_selector(f"#list tbody tr:first-child a:text-is('{ordered[0]}')")
        assert names.all_inner_texts() == ordered
        assert page.evaluate("document.activeElement.id") == "sort-name"
        assert page.evaluate("document.body.dataset.loaded") == "once"
        assert page.input_value("form.language [name=next]") == f"/teams/{link}"
    assert violations(page) == []
    submit(page, "Search", q="an")
    page.wait_for_url("**/teams/?q=an&sort=-name")
    page.wait_for_selector("#list:not(:has(a:text-is('The primes')))")
    assert names.all_inner_texts() == ["Another"]
    page.go_back()
    page.wait_for_selector("#list a:text-is('The primes')")
    assert page.url.endswith("/teams/?sort=-name")
    assert names.all_inner_texts() == ["The primes", "Another"]
    # After the log-in has ended, the list is loaded as a page, which asks for the log-in.
    page.goto("/account/results/")
    cookies = page.context.cookies()
    page.context.clear_cookies()
    page.click("#state-2")
    page.wait_for_url("**/account/login/?next=**")
    page.context.add_cookies(cookies)


def refresh_the_front_page(page) -> None:
    """Let the front page refresh its figures, as when its tab is shown again."""
    page.goto("/")
    page.evaluate("document.body.dataset.loaded = 'once'")
    before = page.get_attribute("#read-at", "datetime")
    page.focus("#table-of-daemons")
    page.wait_for_timeout(3000)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_selector(f"#read-at:not([datetime='{before}'])")
    assert page.evaluate("document.body.dataset.loaded") == "once"
    assert page.evaluate("document.activeElement.id") == "table-of-daemons"
    assert layout_shift(page) == []
    assert violations(page) == []


def join_a_team(page) -> None:
    """Join the team that the founder made."""
    page.goto("/account/")
    page.click("text=Find or create one")
    page.click("tbody th a:text-is('The primes')")
    page.click("button:text-is('Join the team')")
    page.goto("/account/")
    assert "The primes" in page.inner_text("main")


def change_a_preference(page, client) -> None:
    """Change a preference; wait until the client has it."""
    page.goto("/account/preferences/computing/")
    submit(page, "Save", idle_time_to_run="17.5")
    assert "The preferences are saved" in page.inner_text(".messages")
    stored = client.folder / "global_prefs.xml"
    expected = "<idle_time_to_run>17.5</idle_time_to_run>"
    ask_until(
        client,
        lambda: stored.exists() and expected in stored.read_text(),
        what="it has the preference",
    )


def change_the_log_in(project, page, client, key: str) -> None:
    """Change the password, then the e-mail address; the account key stays."""
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


def reset_the_password(project, page, client, key: str) -> None:
    """Replace a forgotten password by the mailed link; the account key stays."""
    page.context.clear_cookies()
    page.goto("/account/password/reset/")
    submit(page, "Send the link", email=NEW_EMAIL)
    assert key_of(client, NEW_EMAIL, NEW_PASSWORD) == key
    page.goto(mailed_link(project, NEW_EMAIL, "password/reset"))
    submit(page, "Set the password", password1=LAST_PASSWORD, password2=LAST_PASSWORD)
    page.wait_for_url("**/account/password/reset/done/")
    assert key_of(client, NEW_EMAIL, LAST_PASSWORD) == key
    assert key_of(client, NEW_EMAIL, NEW_PASSWORD) is None


def export_and_erase(page) -> None:
    """Download what is stored about the account, and erase it."""
    page.goto("/account/")
    with page.expect_download() as download:
        page.click("text=Download as JSON")
    exported = json.loads(Path(download.value.path()).read_text())
    assert exported["account"]["email"] == NEW_EMAIL
    page.click("text=What is erased")
    page.check("[name=sure]")
    submit(page, "Erase the account")
    assert page.inner_text("h1") == "Your account is erased"
    page.goto("/account/")
    assert "/account/login/" in page.url


def test_account_made_in_a_browser_serves_a_stock_client_until_it_is_erased(
    project, page, stock_client
):
    project.publish()
    project.sql("UPDATE app SET credit_rule = 'fixed', credit_per_workunit = 7.5")
    sign_up(page, "Grace", FOUNDER)
    page.goto("/teams/new/")
    submit(page, "Create the team", name="The primes")
    page.context.clear_cookies()
    sign_up(page, "Ada", EMAIL)

    client = stock_client(project, "ada")
    key = key_of(client, EMAIL, PASSWORD)
    assert key is not None
    client.attach_with(key)
    assert wait_until(lambda: project.sql("SELECT 1 FROM host"), within=120, look_again=0.5)
    see_the_work(project, page, client)
    sort_without_a_page_load(project, page)
    refresh_the_front_page(page)
    join_a_team(page)
    change_a_preference(page, client)

    change_the_log_in(project, page, client, key)
    reset_the_password(project, page, client, key)

    # The attached client notices none of this: it uses the account key.
    [before] = project.sql("SELECT rpc_at FROM host")
    later = "SELECT 1 FROM host WHERE rpc_at > %s"
    client.update()
    assert wait_until(lambda: project.sql(later, before["rpc_at"]), within=120, look_again=0.5)
    assert "account key" not in client.notices()
    page.goto("/account/login/?next=/account/keys/")
    submit(page, "Log in", login=NEW_EMAIL, password=LAST_PASSWORD)
    assert page.inner_text("code.secret >> nth=0") == key

    export_and_erase(page)
    assert key_of(client, NEW_EMAIL, LAST_PASSWORD) is None
    assert "0 violations" in project.fsck()
