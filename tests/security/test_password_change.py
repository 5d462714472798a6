"""A password change at any interface revokes the access by the old password."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduler import signing
from scheduler.models import Account, AccountKey, AuditEntry, Submitter
from scheduler.people import account_keys, accounts, api_tokens
from scheduler.people.account_keys import find_account_by_key
from tests.conftest import NOON
from tests.faces.submitters import asked, post

EMAIL, PASSWORD, NEW = "ada@example.org", "a first password", "another pass-phrase"

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Account:
    return accounts.create_staff(email=EMAIL, password=PASSWORD, name="Ada", now=timezone.now())


def by_command(*options: str) -> None:
    call_command("changepassword", EMAIL, "--password", NEW, *options, stdout=io.StringIO())


def by_its_owner(**more: str) -> None:
    client = Client()
    client.force_login(Account.objects.get(email=EMAIL))
    body = {"oldpassword": PASSWORD, "password1": NEW, "password2": NEW, **more}
    assert client.post(reverse("account_change_password"), body).status_code == 302


def by_staff(**more: str) -> None:
    chief = accounts.create_staff(email="chief@example.org", password=PASSWORD, now=NOON)
    client = Client()
    client.force_login(chief)
    page = reverse("admin:auth_user_password_change", args=[Account.objects.get(email=EMAIL).pk])
    assert client.post(page, {"password1": NEW, "password2": NEW, **more}).status_code == 302


DOORS: list[Callable[[], None]] = [by_command, by_its_owner, by_staff]
WITH_HOST_KEYS: list[Callable[[], None]] = [
    lambda: by_command("--revoke-host-keys"),
    lambda: by_its_owner(revoke_host_keys="on"),
    lambda: by_staff(revoke_host_keys="on"),
]


class Access:
    """A session, a token and keys of an account; `open` returns which of them still work."""

    def __init__(self, ada: Account) -> None:
        self.ada = ada
        Submitter.objects.create(account=ada, all_apps=True, created_at=NOON)
        self.session = Client()
        self.session.force_login(ada)
        _, self.token = api_tokens.create(account=ada, name="t", scopes=["read"], now=NOON)
        self.submission = account_keys.new_key(
            account=ada, name="s", kind=AccountKey.Kind.SUBMISSION, now=NOON
        )
        self.weak = account_keys.weak_key(ada)
        current = ada.keys.get(kind=AccountKey.Kind.STRONG, is_current=True)
        self.strong = signing.unseal(bytes(current.sealed))
        self.further = account_keys.new_key(account=ada, name="cluster", now=NOON)

    def open(self) -> dict[str, bool]:
        bearer = Client(headers={"Authorization": f"Bearer {self.token}"})
        return {
            "session": self.session.get(reverse("admin:index")).status_code == 200,
            "token": bearer.get("/api/v1/me").status_code == 200,
            "submission key": "<error>" not in post(asked("query_batches", key=self.submission)),
            "weak key": find_account_by_key(self.weak) is not None,
            "strong key": find_account_by_key(self.strong) is not None,
            "further strong key": find_account_by_key(self.further) is not None,
        }


@pytest.mark.parametrize("door", DOORS)
def test_password_change_revokes_all_access_except_strong_keys(
    door: Callable[[], None], ada: Account
) -> None:
    access = Access(ada)
    assert all(access.open().values()), access.open()
    door()
    still = {name for name, is_open in access.open().items() if is_open}
    assert still == {"strong key", "further strong key"}
    ada.refresh_from_db()
    assert account_keys.weak_key(ada) != access.weak
    assert AuditEntry.objects.get(event=AuditEntry.Event.PASSWORD_CHANGED).subject == EMAIL


@pytest.mark.parametrize("door", WITH_HOST_KEYS)
def test_password_change_revokes_strong_keys_on_request(
    door: Callable[[], None], ada: Account
) -> None:
    access = Access(ada)
    door()
    assert not any(access.open().values())
    digest = accounts.password_digest(email=EMAIL, password=NEW)
    login = accounts.look_up(email=EMAIL, passwd_hash=digest, now=NOON)
    assert login is not None
    assert login.key != access.strong
    assert find_account_by_key(login.key) is not None


@pytest.mark.parametrize("door", ["account_change_password", "admin:auth_user_password_change"])
def test_password_form_warns_that_revoking_host_keys_loses_work(door: str, ada: Account) -> None:
    client = Client()
    client.force_login(ada)
    arguments = [] if door == "account_change_password" else [ada.pk]
    page = client.get(reverse(door, args=arguments)).content.decode()
    assert "lose the work they hold" in page


@pytest.mark.django_db(transaction=True)
def test_token_creation_by_the_old_password_is_refused_after_a_password_change(
    ada: Account,
) -> None:
    """The password was checked, then changed, before the token was written."""
    account = api_tokens.of_password(
        email=EMAIL, password=PASSWORD, address="192.0.2.1", now=timezone.now()
    )

    def change() -> None:
        by_command()
        connection.close()

    changing = threading.Thread(target=change)
    changing.start()
    changing.join(30)
    with pytest.raises(api_tokens.WrongPassword):
        api_tokens.create(account=account, name="late", scopes=["read"], now=timezone.now())


def test_token_creation_by_a_token_is_refused_after_a_password_change(ada: Account) -> None:
    parent, _ = api_tokens.create(account=ada, name="t", scopes=["read"], now=NOON)
    by_command()
    with pytest.raises((api_tokens.WrongPassword, api_tokens.TokenRefused)):
        api_tokens.create_by_token(parent, name="late", scopes=["read"], now=timezone.now())


def test_weak_key_is_returned_only_for_the_correct_password(ada: Account) -> None:
    body = {"email": EMAIL, "password": PASSWORD}
    answer = Client().post("/api/v1/weak-key", body, "application/json")
    assert answer.status_code == 200, answer.content
    assert answer.json() == {"weak_key": account_keys.weak_key(ada)}
    wrong = Client().post("/api/v1/weak-key", body | {"password": "x"}, "application/json")
    assert wrong.status_code == 401
