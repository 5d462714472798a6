"""All log-ins share one throttle, which never locks a victim out."""

from __future__ import annotations

import json
import secrets
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from daemons.management.processes import Children, wait_until
from project.ports import answers, free_port
from scheduler.models import Account, AuditEntry
from scheduler.people import accounts
from tests.conftest import NOON

EMAIL, PASSWORD = "ada@example.org", "a first password"
DIGEST = accounts.password_digest(email=EMAIL, password=PASSWORD)
HOME, AWAY = "192.0.2.7", "198.51.100.9"
#: More than any limit of these tests.
MANY = 20

Attempt = Callable[[str, str, str], str]


@pytest.fixture(autouse=True)
def low_limits(settings) -> None:
    settings.PROJECT = replace(
        settings.PROJECT,
        login_attempts_per_network=12,
        login_attempts_per_account_and_network=4,
        login_attempts_per_account=6,
    )


@pytest.fixture
def ada(db: None) -> Account:
    return accounts.create_staff(email=EMAIL, password=PASSWORD, name="Ada", now=timezone.now())


# Each entry point returns "in", "wrong" or "throttled".


def by_lookup(email: str, password: str, address: str) -> str:
    digest = accounts.password_digest(email=email, password=password)
    answer = Client(REMOTE_ADDR=address).get(
        "/lookup_account.php", {"email_addr": email, "passwd_hash": digest}
    )
    return of_web_rpc(answer)


def by_creation(email: str, password: str, address: str) -> str:
    digest = accounts.password_digest(email=email, password=password)
    asked = {"email_addr": email, "passwd_hash": digest, "user_name": "Ada"}
    return of_web_rpc(Client(REMOTE_ADDR=address).get("/create_account.php", asked))


def of_web_rpc(answer: object) -> str:
    text = answer.content.decode()
    assert answer.status_code == 200, "BOINC clients treat any other status as a server failure"
    if "<authenticator>" in text or "<success/>" in text:
        return "in"
    if "<error_num>-183</error_num>" in text:
        assert "Too many" in text
        return "throttled"
    return "wrong"


def by_token(email: str, password: str, address: str) -> str:
    body = {"email": email, "password": password, "name": "x", "scopes": ["read"]}
    answer = Client(REMOTE_ADDR=address).post("/api/v1/tokens", body, "application/json")
    if answer.status_code == 429:
        assert int(answer["Retry-After"]) > 0
        return "throttled"
    return {201: "in", 401: "wrong"}[answer.status_code]


def by_web(email: str, password: str, address: str) -> str:
    answer = Client(REMOTE_ADDR=address).post(
        reverse("account_login"), {"login": email, "password": password}
    )
    if answer.status_code == 429:
        assert "Too many" in answer.content.decode()
        assert int(answer["Retry-After"]) > 0
        return "throttled"
    return {302: "in", 200: "wrong"}[answer.status_code]


def by_current_password(email: str, password: str, address: str) -> str:
    """Try the old password in the form for a new password."""
    client = Client(REMOTE_ADDR=address)
    client.force_login(Account.objects.get(email=email))
    new = "another password" if password != PASSWORD else PASSWORD
    body = {"oldpassword": password, "password1": new, "password2": new}
    answer = client.post(reverse("account_change_password"), body)
    if answer.status_code == 429:
        return "throttled"
    return {302: "in", 200: "wrong"}[answer.status_code]


DOORS = [by_lookup, by_creation, by_token, by_web, by_current_password]


@pytest.mark.parametrize("door", DOORS)
def test_password_guesses_at_each_log_in_interface_are_throttled(
    door: Attempt, ada: Account
) -> None:
    answers_ = [door(EMAIL, f"guess {number}", AWAY) for number in range(MANY)]
    assert answers_[0] == "wrong"
    assert answers_[-1] == "throttled"
    assert door(EMAIL, PASSWORD, AWAY) == "throttled", "a correct guess is not distinguished"


@pytest.mark.parametrize("door", DOORS)
def test_password_guesses_at_one_log_in_interface_count_at_all_others(
    door: Attempt, ada: Account
) -> None:
    for number in range(MANY):
        by_lookup(EMAIL, f"guess {number}", AWAY)
    assert door(EMAIL, PASSWORD, AWAY) == "throttled"


@pytest.mark.parametrize("door", [by_lookup, by_creation, by_token, by_web])
def test_network_that_tries_many_accounts_is_throttled(door: Attempt, ada: Account) -> None:
    for number in range(MANY):
        by_lookup(f"a{number}@example.org", "guess", f"198.51.100.{number}")
    assert door("other@example.org", "x", AWAY) == "throttled"


def test_account_existence_queries_are_throttled(ada: Account) -> None:
    client = Client(REMOTE_ADDR=AWAY)
    told = [
        of_web_rpc(client.get("/lookup_account.php", {"email_addr": f"a{number}@example.org"}))
        for number in range(MANY)
    ]
    assert told[-1] == "throttled"
    assert of_web_rpc(client.get("/lookup_account.php", {"email_addr": EMAIL})) == "throttled"


def test_correct_passwords_are_not_throttled(ada: Account) -> None:
    for _ in range(MANY):
        assert by_lookup(EMAIL, PASSWORD, HOME) == "in"


@pytest.mark.parametrize(
    ("door", "home", "networks"),
    [(by_lookup, HOME, 200), (by_token, "2001:db8:1:2:3::4", 20), (by_web, HOME, 20)],
)
def test_account_owner_can_log_in_while_many_networks_guess_passwords(
    door: Attempt, home: str, networks: int, ada: Account
) -> None:
    assert door(EMAIL, PASSWORD, home) == "in"
    for number in range(networks):
        by_lookup(EMAIL, f"guess {number}", f"10.{number // 200}.{number % 200}.1")
    assert by_lookup(EMAIL, "guess", "10.99.0.1") == "throttled", "a network never seen before"
    assert door(EMAIL, PASSWORD, home) == "in", "the usual network"
    neighbour = "192.0.2.200" if "." in home else "2001:db8:1:2:ffff::1"
    assert door(EMAIL, PASSWORD, neighbour) == "in", "another address of the usual network"


def test_ipv4_mapped_ipv6_addresses_count_for_the_ipv4_network(ada: Account) -> None:
    for number in range(MANY):
        by_lookup(EMAIL, f"guess {number}", f"::ffff:198.51.100.{number % 250}")
    assert by_lookup(EMAIL, PASSWORD, AWAY) == "throttled"
    assert by_lookup(EMAIL, PASSWORD, HOME) in {"in", "throttled"}


def test_throttled_network_can_log_in_again_later(ada: Account, monkeypatch) -> None:
    for number in range(MANY):
        by_lookup(EMAIL, f"guess {number}", AWAY)
    assert by_lookup(EMAIL, PASSWORD, AWAY) == "throttled"
    later = timezone.now() + timedelta(minutes=30)
    monkeypatch.setattr(timezone, "now", lambda: later)
    assert by_lookup(EMAIL, PASSWORD, AWAY) == "in"


def test_throttled_attempts_are_recorded_once_a_minute(ada: Account, monkeypatch) -> None:
    ticks = count()
    monkeypatch.setattr(timezone, "now", lambda: NOON + timedelta(microseconds=next(ticks)))
    for number in range(MANY):
        by_lookup(EMAIL, f"guess {number}", AWAY)
    throttled = AuditEntry.objects.filter(event=AuditEntry.Event.LOGIN_THROTTLED)
    assert 1 <= throttled.count() <= 3
    entry = throttled.first()
    assert entry is not None
    assert (entry.address, entry.subject) == (AWAY, EMAIL)
    ticks = count(61_000_000)
    before = throttled.count()
    for number in range(MANY):
        by_lookup(EMAIL, f"guess {number}", AWAY)
    assert before < throttled.count() <= before + 3


def test_failed_and_successful_log_ins_are_recorded(ada: Account) -> None:
    by_lookup(EMAIL, "guess", HOME)
    for _ in range(3):
        by_lookup(EMAIL, PASSWORD, HOME)
    by_token(EMAIL, "guess", HOME)
    recorded = list(
        AuditEntry.objects.filter(event__startswith="login_")
        .order_by("id")
        .values_list("event", "actor", "address", "details__door")
    )
    assert recorded == [
        ("login_failed", EMAIL, HOME, "lookup_account"),
        ("login_succeeded", EMAIL, HOME, "lookup_account"),
        ("login_failed", EMAIL, HOME, "tokens"),
    ], "a repeated success is recorded once an hour"


# Two processes


def a_web_server(children: Children, name: str, *, threads: int = 8, **settings_: str) -> str:
    """Start a web process on this test's database and return its URL."""
    from django.db import connection

    # The same keys, but a separate folder.
    folder = settings.VAR_DIR / name
    folder.mkdir(parents=True)
    (folder / "keys").symlink_to(settings.KEYS_DIR)
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    at = connection.settings_dict
    who = urllib.parse.quote(str(at["USER"]))
    secret = f":{urllib.parse.quote(at['PASSWORD'])}" if at.get("PASSWORD") else ""
    query = urllib.parse.urlencode({"host": at["HOST"], "port": at["PORT"] or 5432})
    command = [
        *(sys.executable, "-m", "granian", "--interface", "wsgi"),
        *("--port", str(port), "--workers", "1", "--blocking-threads", str(threads)),
        *("--no-ws", "--log-level", "error", "project.wsgi:application"),
    ]
    environment = {
        "MASTER_URL": url,
        "VAR_DIR": str(folder),
        "DATABASE_URL": f"postgresql://{who}{secret}@/{at['NAME']}?{query}",
        "PYTHONPATH": str(Path.cwd()),
        "LOGIN_THROTTLE_NETWORK": "12",
        **settings_,
    }
    children.start(name, command, environment=environment)
    assert wait_until(lambda: answers(f"{url}get_project_config.php", within=2.0), within=60)
    return url


@pytest.mark.lengthy
@pytest.mark.django_db(transaction=True)
def test_two_web_processes_share_one_throttle_count() -> None:
    children = Children()
    try:
        urls = [a_web_server(children, name) for name in ("one", "two")]
        allowed = dict.fromkeys(urls, 0)
        for number in range(4 * MANY):
            url = urls[number % 2]
            asked = {"email_addr": f"{secrets.token_hex(4)}@example.org", "passwd_hash": "0" * 32}
            query = urllib.parse.urlencode(asked)
            with urllib.request.urlopen(f"{url}lookup_account.php?{query}", timeout=30) as reply:
                allowed[url] += b"-136" in reply.read()
        limit = 12
        assert all(allowed.values()), json.dumps(allowed)
        assert limit <= sum(allowed.values()) <= limit + 5, "the same limit as with one process"
    finally:
        children.stop_all()
