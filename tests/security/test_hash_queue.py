"""Passwords are hashed in a bounded queue, without a database connection."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from django.contrib.auth import hashers
from django.core.management import call_command
from django.db import connection, connections
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduler.models import Account
from scheduler.people import accounts
from scheduler.people.hashing import HashQueueFull

EMAIL, PASSWORD = "ada@example.org", "a first password"
DIGEST = accounts.password_digest(email=EMAIL, password=PASSWORD)

hashed: list[str] = []
gate = threading.Event()


class WatchedHasher(hashers.MD5PasswordHasher):
    """Records whether the thread that waits for a hash holds a connection or a transaction."""

    algorithm = "watched"

    def encode(self, password: str, salt: str) -> str:
        from scheduler.people import hashing

        def hash_it() -> str:
            gate.wait(20)
            return super(WatchedHasher, self).encode(password, salt)

        def note() -> None:
            state = "holds a connection" if connection.connection is not None else "free"
            hashed.append("in a transaction" if connection.in_atomic_block else state)

        return hashing.in_queue(hash_it, before_waiting=note)


@pytest.fixture(autouse=True)
def watched(settings, transactional_db) -> Iterator[None]:
    settings.PASSWORD_HASHERS = [f"{__name__}.WatchedHasher"]
    hashed.clear()
    gate.set()
    yield
    gate.set()


@pytest.fixture
def ada() -> Account:
    made = accounts.create_staff(email=EMAIL, password=PASSWORD, name="Ada", now=timezone.now())
    hashed.clear()
    return made


def lookup(client: Client, email: str = EMAIL, digest: str = DIGEST) -> object:
    return client.get("/lookup_account.php", {"email_addr": email, "passwd_hash": digest})


def create(client: Client, email: str = EMAIL) -> object:
    digest = accounts.password_digest(email=email, password=PASSWORD)
    asked = {"email_addr": email, "passwd_hash": digest, "user_name": "Ada"}
    return client.get("/create_account.php", asked)


def token(client: Client, email: str = EMAIL) -> object:
    body = {"email": email, "password": PASSWORD, "name": "x", "scopes": ["read"]}
    return client.post("/api/v1/tokens", body, "application/json")


def web(client: Client, email: str = EMAIL) -> object:
    return client.post(reverse("account_login"), {"login": email, "password": PASSWORD})


def own_password(client: Client) -> object:
    client.force_login(Account.objects.get(email=EMAIL))
    new = {"password1": "another pass-phrase", "password2": "another pass-phrase"}
    return client.post(reverse("account_change_password"), {"oldpassword": PASSWORD} | new)


def others_password(client: Client) -> object:
    client.force_login(Account.objects.get(email=EMAIL))
    other = Account.objects.get(email="bob@example.org")
    new = {"password1": "another pass-phrase", "password2": "another pass-phrase"}
    return client.post(reverse("admin:auth_user_password_change", args=[other.pk]), new)


def new_account(client: Client) -> object:
    client.force_login(Account.objects.get(email=EMAIL))
    body = {
        "email": "new@example.org",
        "name": "New",
        "password1": "another pass-phrase",
        "password2": "another pass-phrase",
    }
    return client.post(reverse("admin:scheduler_account_add"), body)


def by_command(_client: Client) -> object:
    call_command("changepassword", EMAIL, "--password", "another pass-phrase", stdout=io.StringIO())
    return None


DOORS: dict[str, Callable[[Client], object]] = {
    "lookup_account": lookup,
    "lookup_account, wrong password": lambda client: lookup(client, digest="0" * 32),
    "create_account": lambda client: create(client, "carol@example.org"),
    "create_account as log-in": create,
    "tokens": token,
    "tokens, unknown address": lambda client: token(client, "carol@example.org"),
    "web": web,
    "web, unknown address": lambda client: web(client, "carol@example.org"),
    "own password": own_password,
    "another's password": others_password,
    "new account in the admin": new_account,
    "changepassword": by_command,
}


@pytest.mark.parametrize("door", DOORS)
def test_entry_points_hash_passwords_without_a_database_connection_or_transaction(
    door: str, ada: Account
) -> None:
    from tests.rows import an_account

    an_account("bob")
    DOORS[door](Client())
    assert hashed, "the door hashes"
    assert set(hashed) == {"free"}


@pytest.mark.parametrize(
    ("known", "unknown"),
    [("tokens", "tokens, unknown address"), ("web", "web, unknown address")],
)
def test_unknown_email_costs_as_many_hashes_as_a_known_email(
    known: str, unknown: str, ada: Account
) -> None:
    DOORS[known](Client())
    cost = len(hashed)
    hashed.clear()
    DOORS[unknown](Client())
    assert len(hashed) == cost


def test_inactive_account_costs_as_many_hashes_as_an_active_account(ada: Account) -> None:
    DOORS["tokens"](Client())
    cost = len(hashed)
    hashed.clear()
    Account.objects.update(is_active=False)
    DOORS["tokens"](Client())
    assert len(hashed) == cost


def full(count: int) -> tuple[ThreadPoolExecutor, list[object]]:
    """Start threads that fill the queue until the gate opens."""
    gate.clear()
    pool = ThreadPoolExecutor(count)

    def wait() -> None:
        try:
            hashers.make_password("x")
        finally:
            connections.close_all()

    futures: list[object] = [pool.submit(wait) for _ in range(count)]
    deadline = time.monotonic() + 10
    while len(hashed) < count and time.monotonic() < deadline:
        time.sleep(0.01)
    return pool, futures


def test_full_queue_refuses_requests_at_every_entry_point_immediately(
    ada: Account, settings
) -> None:
    from tests.rows import an_account

    an_account("bob")
    most = settings.PROJECT.max_waiting_hashes
    pool, futures = full(most)
    began = time.monotonic()
    try:
        with pytest.raises(HashQueueFull):
            hashers.make_password("x")
        for door in (lookup, lambda client: create(client, "carol@example.org")):
            answer = door(Client())
            assert answer.status_code == 200
            assert "<error_num>-183</error_num>" in answer.content.decode()
        for door in (token, web, own_password, others_password, new_account):
            answer = door(Client())
            assert answer.status_code == 503, door
            assert int(answer["Retry-After"]) > 0
            assert "Hint" in answer.content.decode() or "hint" in answer.json()
        assert time.monotonic() - began < 10
        unknown = token(Client(), "carol@example.org")
        assert unknown.status_code == 503, "an unknown address is answered alike"
    finally:
        gate.set()
        pool.shutdown()
    assert all(future.exception() is None for future in futures)
    assert token(Client()).status_code == 201, "and the refusals were not charged"


def test_account_creation_refused_by_a_full_queue_does_not_count_as_a_new_account(settings) -> None:
    settings.PROJECT = replace(settings.PROJECT, accounts_per_network=1)
    pool, _ = full(settings.PROJECT.max_waiting_hashes)
    try:
        assert "<error_num>-183</error_num>" in create(Client()).content.decode()
    finally:
        gate.set()
        pool.shutdown()
    assert "<authenticator>" in create(Client()).content.decode()
    assert "today" in create(Client(), "carol@example.org").content.decode()
