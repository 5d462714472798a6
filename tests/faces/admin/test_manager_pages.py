"""Addresses that BOINC's Manager, its installers and statistics sites open."""

from __future__ import annotations

import gzip
import logging
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from daemons import housekeeper
from scheduler import storage
from scheduler.models import Account, Heartbeat, Team
from scheduler.people import accounts
from scheduler.web.manager_pages import PAGES
from tests.conftest import NOON
from tests.rows import a_host, an_account

pytestmark = pytest.mark.django_db

ADDRESSES = [
    "account_finish.php",
]
SECRET = "ada@example.org"


@pytest.fixture(autouse=True)
def var(settings: Any, tmp_path: Path) -> Path:
    settings.VAR_DIR = tmp_path
    return tmp_path


@pytest.mark.parametrize("name", ADDRESSES)
def test_page_linked_by_boinc_manager_returns_html_without_queries(
    client: Client, name: str
) -> None:
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(f"/{name}")
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/html")
    page = answer.content.decode()
    assert f"<h1>{PAGES[name][0]}</h1>" in page.replace("&#x27;", "'")
    assert 'href="/"' in page
    assert len(queries) == 0
    assert client.head(f"/{name}").status_code == 200
    assert client.post(f"/{name}").status_code == 405


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("home.php", "/account/"),
        ("get_passwd.php", "/account/password/reset/"),
        ("create_account_form.php", "/account/signup/"),
        ("weak_auth.php", "/account/keys/"),
        ("hosts_user.php", "/account/computers/"),
        ("results.php", "/account/results/"),
        ("prefs.php", "/account/preferences/computing/"),
    ],
)
def test_page_of_accounts_leads_to_the_page_of_this_site(
    client: Client, name: str, page: str
) -> None:
    answer = client.get(f"/{name}", {"next": "//evil.example"})
    assert (answer.status_code, answer["Location"]) == (302, page)


@pytest.mark.parametrize("name", ADDRESSES)
def test_query_parameters_do_not_change_the_page(client: Client, name: str) -> None:
    """A different page would reveal which accounts and computers exist."""
    account = an_account("Ada Lovelace", email=SECRET)
    host = a_host(account, domain_name="secret-computer")
    plain = client.get(f"/{name}").content
    for query in (
        {"userid": account.pk, "auth": f"{account.pk}_x", "hostid": host.pk},
        {"userid": 10**9, "hostid": 10**9, "email_addr": SECRET},
        {"userid": "<script>", "target": "//evil.example"},
    ):
        assert client.get(f"/{name}", query).content == plain
    assert not re.search(b"Ada|secret-computer|example.org", plain)


# Log-in tokens of installers


def look_up(client: Client, **query: object) -> ET.Element:
    answer = client.get("/login_token_lookup.php", query)
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/xml")
    return ET.fromstring(answer.content)


def test_login_token_gets_the_same_xml_error_whether_or_not_the_account_exists(
    client: Client,
) -> None:
    account = an_account("ada")
    answers = [
        ET.tostring(look_up(client, user_id=user_id, token="t"))
        for user_id in (account.pk, 10**9, "x\0y", "")
    ]
    assert len(set(answers)) == 1
    error = ET.fromstring(answers[0])
    assert (error.tag, error.findtext("error_num")) == ("error", "-1")
    assert "log-in token is not valid" in str(error.findtext("error_msg"))


def test_login_tokens_are_throttled_by_network(client: Client, settings: Any) -> None:
    settings.PROJECT = replace(settings.PROJECT, login_throttle=True, login_attempts_per_network=3)
    numbers = [
        look_up(client, user_id=number, token="t").findtext("error_num") for number in range(5)
    ]
    assert numbers == ["-1", "-1", "-1", "-183", "-183"]


def test_login_tokens_of_one_account_are_throttled(client: Client, settings: Any) -> None:
    settings.PROJECT = replace(
        settings.PROJECT, login_throttle=True, login_attempts_per_account_and_network=2
    )
    numbers = [look_up(client, user_id=7, token=n).findtext("error_num") for n in range(4)]
    assert numbers == ["-1", "-1", "-183", "-183"]


# Statistics


@pytest.fixture
def exported(var: Path) -> Path:
    an_account("Ada", email=SECRET, total_credit=Decimal(5), expavg_at=NOON)
    call_command("export_stats", verbosity=0)
    return var / "stats"


def test_exported_statistics_files_are_listed_and_served(client: Client, exported: Path) -> None:
    page = client.get("/stats/").content.decode()
    types = {"tables.xml": "text/xml", "user.gz": "application/gzip"}
    for name in storage.STATISTICS_FILES:
        assert f'href="/stats/{name}"' in page
        answer = client.get(f"/stats/{name}")
        content = b"".join(answer.streaming_content)  # type: ignore[attr-defined]
        answer.close()
        assert content == (exported / name).read_bytes()
        assert answer["Content-Type"] == types.get(name, "application/gzip")
        assert "Content-Encoding" not in answer
        assert answer["Last-Modified"].endswith("GMT")
    assert b"<name>Ada</name>" in gzip.decompress((exported / "user.gz").read_bytes())
    assert SECRET.encode() not in gzip.decompress((exported / "user.gz").read_bytes())


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../keys/secret_key",
        "%2e%2e/keys/secret_key",
        ".user.gz.part",
        "x.gz",
        "user",
    ],
)
def test_other_files_below_the_statistics_url_are_not_served(
    client: Client, exported: Path, name: str
) -> None:
    (exported / "x.gz").write_bytes(b"x")
    (exported.parent / "keys").mkdir(exist_ok=True)
    (exported.parent / "keys" / "secret_key").write_text("its text")
    answer = client.get(f"/stats/{name}")
    assert name == "" or answer.status_code == 404
    assert b"its text" not in answer.content


def test_statistics_page_before_the_first_export_reports_missing_files(client: Client) -> None:
    assert "were not written yet" in client.get("/stats/").content.decode()
    assert client.get("/stats/user.gz").status_code == 404


def test_the_housekeeper_writes_statistics_once_a_day(var: Path) -> None:
    housekeeper.run_pass(now=NOON, limit=100)
    tables = var / "stats" / "tables.xml"
    assert f"<update_time>{int(NOON.timestamp())}</update_time>" in tables.read_text()
    tables.unlink()
    housekeeper.run_pass(now=NOON + housekeeper.HOUR, limit=100)
    assert not tables.exists()
    housekeeper.run_pass(now=NOON + housekeeper.DAY, limit=100)
    assert tables.exists()
    assert Heartbeat.objects.filter(name="chore statistics").exists()


# Teams


def create(client: Client, team_name: str) -> Account:
    digest = accounts.password_digest(email=SECRET, password="a long password")
    query = {"email_addr": SECRET, "passwd_hash": digest, "user_name": "Ada"}
    answer = client.get("/create_account.php", query | {"team_name": team_name})
    assert b"<authenticator>" in answer.content
    return Account.objects.get(email=SECRET)


@pytest.mark.parametrize("name", ["nobody's", "closed", "a\0b", "x" * 999])
def test_an_unknown_team_is_ignored_and_logged(
    client: Client, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    Team.objects.create(name="closed", joinable=False, created_at=NOON)
    with caplog.at_level(logging.INFO):
        assert create(client, name).team is None
    (record,) = [one for one in caplog.records if one.message == "team_ignored"]
    assert record.__dict__["team_name"] == name[:254]


def test_a_new_account_joins_an_open_team(client: Client) -> None:
    team = Team.objects.create(name="The primes", created_at=NOON)
    assert create(client, " The primes ").team == team


def test_missing_team_is_not_logged(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert create(client, "").team is None
    assert not [one for one in caplog.records if one.message == "team_ignored"]
