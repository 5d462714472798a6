"""Pages for account managers show private data to strong keys only.

Keys are in no log line and in no audit entry.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.hosts import own_hosts
from scheduler.models import Account, AccountKey, AuditEntry, Host, News, Team
from scheduler.people import account_keys, accounts, feed_keys, team_reads
from scheduler.people.account_keys import weak_key
from tests import rows
from tests.conftest import NOON
from tests.faces.pages import comparable

pytestmark = pytest.mark.django_db

EMAIL, PASSWORD = "ada@example.org", "a first password"
PAGES = ("am_get_info.php", "am_set_host_info.php", "show_user.php", "team_email_list.php")


@pytest.fixture
def key() -> str:
    digest = accounts.password_digest(email=EMAIL, password=PASSWORD)
    credentials = accounts.create_account(
        email=EMAIL, passwd_hash=digest, name="Ada", by_staff=True, now=NOON
    )
    return credentials.key


@pytest.fixture
def ada(key: str) -> Account:
    return Account.objects.get()


def get(page: str, address: str = "192.0.2.7", **params: object) -> ET.Element:
    answer = Client(REMOTE_ADDR=address).get(f"/{page}", params)
    assert answer.status_code == 200
    return ET.fromstring(answer.content)


def with_key(page: str, key: str, host: Host | None = None, **more: str) -> ET.Element:
    number = host.pk if host else 0
    params = {"account_key": key, "auth": key, "hostid": number, "venue": "home"}
    return get(page, **params, format="xml", **more)


def test_weak_key_neither_shows_preferences_and_computers_nor_sets_a_venue(ada):
    host = rows.a_host(ada, domain_name="secret-computer")
    rows.update(ada, global_prefs="<secret/>", share_statistics=False)
    weak = weak_key(ada)
    assert with_key("am_get_info.php", weak).findtext("error_num") == "-136"
    assert with_key("am_set_host_info.php", weak, host).findtext("error_num") == "-136"
    host.refresh_from_db()
    assert host.venue == ""
    # BOINC's page looks up strong keys only, so a weak key shows no account.
    for shares in (False, True):
        rows.update(ada, share_statistics=shares)
        shown = with_key("show_user.php", weak)
        assert (shown.tag, shown.findtext("error_num")) == ("error", "-136")
    assert (shown.find("host"), shown.find("name")) == (None, None)


def test_submission_key_is_no_key_of_these_pages(ada):
    submission = account_keys.new_key(
        account=ada, name="s", kind=AccountKey.Kind.SUBMISSION, now=timezone.now()
    )
    for page in PAGES[:3]:
        assert with_key(page, submission).findtext("error_num") == "-136"


def test_revoked_keys_and_keys_of_inactive_accounts_are_unknown(ada, key):
    rows.update(ada, is_active=False)
    assert with_key("am_get_info.php", key).findtext("error_num") == "-136"
    rows.update(ada, is_active=True)
    AccountKey.objects.filter(account=ada).update(is_current=False, revoked_at=NOON)
    assert with_key("am_get_info.php", key).findtext("error_num") == "-136"


def test_guessed_keys_are_throttled_and_correct_keys_are_not(ada, key, settings):
    settings.PROJECT = replace(settings.PROJECT, login_throttle=True, login_attempts_per_network=3)
    guesses = [
        get("am_get_info.php", account_key=f"{n:032x}").findtext("error_num") for n in range(5)
    ]
    assert guesses == ["-136", "-136", "-136", "-183", "-183"]
    assert with_key("am_get_info.php", key).find("success") is not None
    assert (
        get("am_get_info.php", address="198.51.100.9", account_key="x").findtext("error_num")
        == "-136"
    )


def test_keys_are_in_no_log_line_and_no_audit_entry(
    ada, key, caplog, settings, django_capture_on_commit_callbacks
):
    settings.PROJECT = replace(settings.PROJECT, login_throttle=True, login_attempts_per_network=2)
    host = rows.a_host(ada)
    # Audit entries are logged after the commit.
    with caplog.at_level(logging.DEBUG), django_capture_on_commit_callbacks(execute=True):
        for page in PAGES:
            with_key(page, key, host)
            with_key(page, "0" * 31 + "f", host)
    logged = " ".join(str(record.__dict__) for record in caplog.records)
    stored = " ".join(str(entry.__dict__) for entry in AuditEntry.objects.all())
    for secret in (key, "0" * 31 + "f"):
        assert secret not in logged
        assert secret not in stored
    assert "host_changed" in logged
    assert "host_changed" in stored


def test_names_cannot_add_elements_to_replies(ada, key):
    evil = "</name><teamfounder/><name>\x01\uffff"
    rows.update(ada, name=evil, country=evil[:64], venue=evil, url=evil)
    rows.a_host(ada, domain_name=evil, p_model=evil, venue=evil, host_cpid="</x>")
    for page in ("am_get_info.php", "show_user.php"):
        root = with_key(page, key)
        assert root.find(".//teamfounder") is None
        assert root.tag != "error"


# Feeds


def feed(account_id: object, key: str) -> ET.Element:
    return get("notices.php", userid=account_id, auth=key)


def key_of(account: Account) -> str:
    import hashlib

    return feed_keys.feed_key(account.pk, hashlib.md5(account.password.encode()).hexdigest())


def test_feed_of_notices_needs_the_secret_of_its_account(ada):
    News.objects.create(title="t", text="x", published_at=timezone.now())
    other = rows.an_account("eve")
    assert feed(ada.pk, key_of(ada)).tag == "rss"
    wrong = [
        (ada.pk, ""),
        (ada.pk, key_of(other)),
        (other.pk, key_of(ada)),
        (ada.pk, f"{ada.pk}_{'0' * 32}"),
        (10**17, key_of(ada)),
        ("x", key_of(ada)),
        ("\u0663", "\u0663_x"),
        ("", ""),
    ]
    for account_id, key in wrong:
        assert feed(account_id, key).findtext("error_num") == "-155"


def test_secret_of_a_feed_ends_with_the_password_and_with_the_account(ada):
    old = key_of(ada)
    digest = accounts.password_digest(email=EMAIL, password="another one")
    accounts.change_password(account=ada, passwd_hash=digest, now=NOON)
    assert feed(ada.pk, old).findtext("error_num") == "-155"
    ada.refresh_from_db()
    assert feed(ada.pk, key_of(ada)).tag == "rss"
    rows.update(ada, is_active=False)
    assert feed(ada.pk, key_of(ada)).findtext("error_num") == "-155"


def test_news_cannot_add_elements_to_feeds_or_to_files_of_clients(ada):
    evil = "]]></title><item/> & <script>x</script>"
    News.objects.create(title=evil, text=f"{evil}\n\n\x01{evil}", published_at=timezone.now())
    [item] = feed(ada.pk, key_of(ada)).findall("channel/item")
    assert [child.tag for child in item] == ["title", "link", "guid", "description", "pubDate"]
    # Clients write the text between the tags of their own files, without escaping it.
    for tag in ("title", "description"):
        text = (item.findtext(tag) or "").replace("<p>", "").replace("</p>", "")
        assert "<" not in text
        assert ">" not in text


# Public pages


def columns(queries: CaptureQueriesContext, table: str) -> str:
    """Return the columns that the last query of a table reads."""
    statements = [query["sql"] for query in queries if f'FROM "{table}"' in query["sql"]]
    return str(statements[-1]).partition(" FROM ")[0]


def test_list_of_members_reads_no_preferences_and_is_limited(ada, monkeypatch):
    """Preferences have up to 64 KB for each account, and teams have thousands of members."""
    team = Team.objects.create(name="t", created_at=NOON)
    for number in range(3):
        rows.an_account(f"member {number}", team=team)
    with CaptureQueriesContext(connection) as queries:
        assert len(get("team_email_list.php", teamid=str(team.pk), xml="1")) == 3
    read = columns(queries, "account")
    assert '"account"."name"' in read
    for column in ("global_prefs", "project_prefs", "password"):
        assert column not in read
    assert team_reads.MAX_MEMBERS <= 10_000
    monkeypatch.setattr(team_reads, "MAX_MEMBERS", 2)
    assert len(get("team_email_list.php", teamid=str(team.pk), xml="1")) == 2


def test_list_of_computers_reads_only_what_it_shows_and_is_limited(ada, key, monkeypatch):
    for _ in range(3):
        rows.a_host(ada)
    with CaptureQueriesContext(connection) as queries:
        assert len(with_key("show_user.php", key).findall("host")) == 3
    read = columns(queries, "host")
    assert '"host"."domain_name"' in read
    for column in ("last_ip_addr", "p_features", "capabilities", "last_decisions"):
        assert column not in read
    assert own_hosts.MAX_HOSTS <= 10_000
    monkeypatch.setattr(own_hosts, "MAX_HOSTS", 2)
    assert len(with_key("show_user.php", key).findall("host")) == 2


def test_public_state_of_the_server_reads_no_table(django_assert_num_queries):
    """Counting scans whole tables: repeated requests would occupy all connections."""
    rows.an_app("primes")
    with django_assert_num_queries(0):
        assert get("server_status.php", xml="1").tag == "server_status"


def test_page_of_a_computer_hides_its_name_and_address(ada):
    rows.update(ada, show_hosts=True)
    host = rows.a_host(ada, domain_name="secret-computer", last_ip_addr="203.0.113.5")
    answer = Client().get("/show_host_detail.php", {"hostid": host.pk})
    assert answer.status_code == 200
    page = answer.content.decode()
    assert "Ada" in page
    for secret in ("secret-computer", "203.0.113.5", EMAIL):
        assert secret not in page
    rows.update(ada, share_statistics=False)
    answer = Client().get("/show_host_detail.php", {"hostid": host.pk})
    assert answer.status_code == 200
    assert b"Ada" not in comparable(answer)


def test_hidden_closed_merged_and_unknown_computers_have_the_same_page(ada):
    hidden = rows.a_host(rows.an_account("hidden", show_hosts=False))
    closed = rows.a_host(rows.an_account("closed", is_active=False, show_hosts=True))
    rows.update(ada, show_hosts=True)
    merged = rows.a_host(ada, merged_into=rows.a_host(ada))
    hidden_alone = rows.a_host(ada, hidden=True)
    numbers = (hidden.pk, closed.pk, merged.pk, hidden_alone.pk)
    answers = [
        Client().get("/show_host_detail.php", {"hostid": number})
        for number in (*numbers, 10**17, "x", "", "<b>", "9" * 60)
    ]
    assert {answer.status_code for answer in answers} == {404}
    assert len({comparable(answer) for answer in answers}) == 1


def test_search_finds_only_accounts_that_share_their_statistics(ada):
    rows.an_account("adam", share_statistics=False)
    rows.an_account("adan", is_active=False)
    adah = rows.an_account("ADAH <b>", email="adah@example.org")
    answer = Client().get("/user_search.php", {"search_string": "aDa"})
    page = comparable(answer).decode()
    assert ">Ada</a></th>" in page
    assert "ADAH &lt;b&gt;" in page
    for hidden in ("adam", "adan", EMAIL, adah.email):
        assert hidden not in page
