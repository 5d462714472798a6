"""A stock client with an account manager, and with news as notices."""

from __future__ import annotations

import time
import urllib.parse
import urllib.request
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest

from scheduler.people.accounts import password_digest
from tests.story.account_manager import NAME, AccountManager
from tests.story.project import Project
from tests.story.test_stock_replies import ask_until
from tests.story.volunteers import CC_CONFIG, PASSWORD, StockClient

pytestmark = pytest.mark.stock_client

EMAIL = "zoe@example.org"
PREFS = "<mod_time>1700000000</mod_time>\n<idle_time_to_run>17.5</idle_time_to_run>"


def wait_for(what, *, within: float = 60) -> None:
    end = time.monotonic() + within
    while not what():
        assert time.monotonic() < end, what
        time.sleep(0.5)


@pytest.fixture
def project(make_project) -> Project:
    made = make_project()
    made.start()
    return made


@pytest.fixture
def key(project) -> str:
    """Create the account of Zoë, a member of a team, with preferences; return its key."""
    now = datetime.now(UTC)
    project.sql(
        "INSERT INTO team (name, created_at, url, description, country, joinable, total_credit,"
        " expavg_credit) VALUES ('Primes & Co', %s, '', '', '', true, 0, 0) RETURNING id",
        now,
    )
    digest = password_digest(email=EMAIL, password=PASSWORD)
    query = {
        "email_addr": EMAIL,
        "passwd_hash": digest,
        "user_name": "Zoë",
        "team_name": "Primes & Co",
    }
    url = f"{project.url}create_account.php?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        key = ET.fromstring(answer.read()).findtext("authenticator")
    project.sql("UPDATE account SET global_prefs = %s RETURNING id", PREFS)
    assert key
    return key


@pytest.fixture
def manager(project, key, stage) -> AccountManager:
    made = AccountManager(project.url, key)
    stage.callback(made.close)
    return made


def state(client: StockClient) -> str:
    return (client.folder / "client_state.xml").read_text()


def test_account_manager_attaches_a_client_and_passes_on_name_team_preferences_and_venue(
    project, key, manager, stock_client
):
    client = stock_client(project, "zoe")
    client.command("--acct_mgr", "attach", manager.url, "zoe", "a password")
    hosts = "SELECT id, venue FROM host"
    ask_until(client, lambda: project.sql(hosts), what="it has contacted the project", every=1)
    [host] = project.sql(hosts)

    # The client attached with the weak key, under the manager's name for it.
    assert f"Name: {NAME}" in client.command("--acct_mgr", "info")
    weak = manager.read("am_get_info.php").findtext("weak_auth")
    [account_file] = client.folder.glob("account_127*.xml")
    assert f"<authenticator>{weak}</authenticator>" in account_file.read_text()
    assert key not in account_file.read_text()

    # Name and team, as soon as the client has read the reply
    wait_for(lambda: "user_name: Zoë" in client.command("--get_project_status"))
    assert "team_name: Primes & Co" in client.command("--get_project_status")

    # Preferences
    theirs = client.folder / "global_prefs.xml"
    assert "<idle_time_to_run>17.5</idle_time_to_run>" in theirs.read_text()
    assert f"<source_project>{manager.url}</source_project>" in theirs.read_text()

    # The manager learns the computer's number, and sets its venue.
    client.command("--acct_mgr", "sync")
    wait_for(lambda: manager.host_id() == str(host["id"]))
    reply = manager.read("am_set_host_info.php", hostid=host["id"], venue="school")
    assert reply.find("success") is not None
    assert project.sql(hosts)[0]["venue"] == "school"
    ask_until(
        client,
        lambda: "<host_venue>school</host_venue>" in state(client),
        what="it has the venue",
        every=1,
    )

    # The computer appears among those of the account.
    user = manager.read("show_user.php", auth=key, format="xml")
    assert user.findtext("name") == "Zoë"
    assert [each.findtext("venue") for each in user.findall("host")] == ["school"]


#: A client that fetches feeds also fetches BOINC's list of projects and its newest version, unless it
#: has done so recently.
RECENTLY = """\
<client_state>
<all_projects_list_check_time>{now}</all_projects_list_check_time>
<new_version_check_time>{now}</new_version_check_time>
</client_state>
"""


def reading_feeds(project: Project, name: str) -> StockClient:
    """Return a client that fetches feeds, before it is started."""
    client = StockClient(project, name)
    fetching = CC_CONFIG.replace("<no_info_fetch>1", "<no_info_fetch>0")
    (client.folder / "cc_config.xml").write_text(fetching)
    (client.folder / "client_state.xml").write_text(RECENTLY.format(now=int(time.time())))
    return client


def test_news_of_the_project_are_notices_of_a_client_until_they_are_withdrawn(project, stage):
    publish = "INSERT INTO news (title, text, published_at) VALUES (%s, %s, %s) RETURNING id"
    project.sql(publish, "Results & thanks", "We found <3 primes.\n\nThank you!", datetime.now(UTC))
    client = reading_feeds(project, "alice")
    stage.callback(client.close)
    client.start()
    client.attach()
    # boinccmd prints the texts of notices, but not their titles.
    ask_until(client, lambda: "primes" in client.notices(), what="it shows the news", every=1)
    assert "<p>We found &lt;3 primes.</p><p>Thank you!</p>" in client.notices()
    [archive] = (client.folder / "notices").glob("archive_*notices.php.xml")
    assert "<title>Results &amp; thanks</title>" in archive.read_text()

    project.sql(publish, "A new app", "It is fast.", datetime.now(UTC))
    ask_until(client, lambda: "fast" in client.notices(), what="it shows more news", every=3)

    project.sql("UPDATE news SET withdrawn_at = now() WHERE title LIKE %s RETURNING id", "Results%")
    ask_until(client, lambda: "primes" not in client.notices(), what="it drops news", every=3)
    assert "fast" in client.notices()
