"""Creating accounts, logging in, changing passwords and revoking keys."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from django.conf import settings
from django.contrib.auth import authenticate
from django.db import connection
from django.test.utils import CaptureQueriesContext, override_settings

from scheduler import signing
from scheduler.config import AccountCreation
from scheduler.models import Account, AccountKey
from scheduler.people import account_keys, accounts, invitations

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 6, 2, 12, tzinfo=UTC)
EMAIL = "Ada@Example.org"
DIGEST = accounts.password_digest(email=EMAIL, password="secret")
BACKEND = "scheduler.people.accounts.MasterPasswordBackend"


@pytest.fixture(autouse=True)
def own_backend() -> Iterator[None]:
    """Use the authentication backend for the password digests of clients."""
    with override_settings(AUTHENTICATION_BACKENDS=[BACKEND]):
        yield


def ada() -> accounts.Credentials:
    return accounts.create_account(email=EMAIL, passwd_hash=DIGEST, name="Ada", now=NOON)


def new_account(email: str, **facts: str) -> accounts.Credentials:
    return accounts.create_account(email=email, passwd_hash=DIGEST, name="B", now=NOON, **facts)


def the_key(account: Account, kind: AccountKey.Kind) -> AccountKey:
    return account.keys.get(kind=kind, is_current=True)


def said(key: AccountKey) -> str:
    return signing.unseal(bytes(key.sealed))


def test_the_password_digest_is_what_clients_compute() -> None:
    assert hashlib.md5(b"secretada@example.org", usedforsecurity=False).hexdigest() == DIGEST


@pytest.mark.django_db
class TestCreating:
    """PROTOCOL 1.4."""

    def test_an_account_has_a_random_key_that_is_stored_hashed_and_sealed(self) -> None:
        made = ada()
        row = the_key(made.account, AccountKey.Kind.STRONG)
        assert len(made.key) == 32
        assert row.key_hash == hashlib.sha256(made.key.encode()).hexdigest()
        assert made.key.encode() not in bytes(row.sealed)
        assert said(row) == made.key
        assert (made.account.name, made.account.created_at, made.created) == ("Ada", NOON, True)

    def test_the_password_is_not_stored(self) -> None:
        stored = ada().account.password
        assert DIGEST not in stored
        assert "secret" not in stored

    def test_the_weak_key_is_derived_from_the_key_and_the_stored_password(self) -> None:
        made = ada()
        weak = said(the_key(made.account, AccountKey.Kind.WEAK))
        fingerprint = (made.key + made.account.password).encode()
        digest = hashlib.md5(fingerprint, usedforsecurity=False).hexdigest()
        assert weak == f"{made.account.pk}_{digest}"

    def test_creating_the_same_account_again_returns_the_same_key(self) -> None:
        first, second = ada(), ada()
        assert (second.key, second.created) == (first.key, False)
        assert Account.objects.count() == 1

    def test_another_spelling_of_the_address_is_the_same_account(self) -> None:
        first = ada()
        again = accounts.create_account(
            email=" ada@example.ORG", passwd_hash=DIGEST, name="x", now=NOON
        )
        assert again.key == first.key
        assert first.account.email == "ada@example.org"

    def test_creating_an_existing_account_with_another_password_is_refused(self) -> None:
        ada()
        with pytest.raises(accounts.EmailTaken) as refusal:
            accounts.create_account(email=EMAIL, passwd_hash="0" * 32, name="Ada", now=NOON)
        assert refusal.value.error_num == -137

    @pytest.mark.parametrize(
        ("change", "kind", "error_num"),
        [
            ({"email": "no address"}, accounts.BadEmail, -205),
            ({"email": ""}, accounts.BadEmail, -205),
            ({"name": " "}, account_keys.BadName, -188),
            ({"name": "<b>"}, account_keys.BadName, -188),
            ({"name": "a\nb"}, account_keys.BadName, -188),
            ({"passwd_hash": "short"}, accounts.BadPasswordDigest, -1),
            ({"passwd_hash": "Z" * 32}, accounts.BadPasswordDigest, -1),
        ],
    )
    def test_invalid_account_data_is_refused_with_the_boinc_error_number(
        self, change: dict[str, str], kind: type[accounts.AccountRefused], error_num: int
    ) -> None:
        facts = {"email": "b@example.org", "passwd_hash": DIGEST, "name": "B"} | change
        with pytest.raises(kind, match="Hint: ") as refusal:
            accounts.create_account(**facts, now=NOON)
        assert refusal.value.error_num == error_num
        assert not Account.objects.exists()

    def test_closed_account_creation_refuses_new_accounts_and_accepts_existing_ones(self) -> None:
        first = ada()
        closed = replace(settings.PROJECT, account_creation=AccountCreation.CLOSED)
        with override_settings(PROJECT=closed):
            assert ada().key == first.key
            with pytest.raises(accounts.AccountCreationDisabled) as refusal:
                accounts.create_account(
                    email="b@example.org", passwd_hash=DIGEST, name="B", now=NOON
                )
        assert refusal.value.error_num == -208

    def test_an_invitation_code_can_be_used_once_and_only_by_a_new_account(self) -> None:
        first = ada()
        _, code = invitations.make(now=NOON)
        invited = replace(settings.PROJECT, account_creation=AccountCreation.INVITATION)
        with override_settings(PROJECT=invited):
            assert ada().key == first.key
            for email, given in (("b@example.org", ""), ("b@example.org", "no" + code)):
                with pytest.raises(invitations.BadInvitation) as refusal:
                    new_account(email, invite_code=given)
                assert refusal.value.error_num == -209
            assert new_account("b@example.org", invite_code=code).created
            with pytest.raises(invitations.BadInvitation, match="used up"):
                new_account("c@example.org", invite_code=code)
        assert Account.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_four_concurrent_creations_of_an_account_create_one_account_with_one_key() -> None:
    keys = []

    def create() -> None:
        try:
            keys.append(ada().key)
        finally:
            connection.close()

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(keys) == 4
    assert len(set(keys)) == 1
    assert Account.objects.count() == 1


@pytest.mark.django_db
class TestLoggingIn:
    """PROTOCOL 1.3, and the log-in on the website."""

    def test_look_up_with_the_password_returns_the_key(self) -> None:
        made = ada()
        login = accounts.look_up(email="ADA@example.org", passwd_hash=DIGEST, now=LATER)
        assert login is not None
        assert (login.account, login.key) == (made.account, made.key)

    def test_look_up_accepts_a_digest_of_key_and_address_in_place_of_the_password(self) -> None:
        made = ada()
        by_key = hashlib.md5((made.key + EMAIL.lower()).encode(), usedforsecurity=False).hexdigest()
        login = accounts.look_up(email=EMAIL, passwd_hash=by_key, now=LATER)
        assert login is not None
        assert login.key == made.key

    def test_look_up_without_a_password_returns_no_key(self) -> None:
        ada()
        assert accounts.look_up(email=EMAIL, passwd_hash=None, now=LATER) is None

    def test_unknown_address_and_wrong_password_raise_boinc_error_numbers(self) -> None:
        ada()
        with pytest.raises(accounts.UnknownEmail) as unknown:
            accounts.look_up(email="b@example.org", passwd_hash=DIGEST, now=LATER)
        with pytest.raises(accounts.WrongPassword) as wrong:
            accounts.look_up(email=EMAIL, passwd_hash="0" * 32, now=LATER)
        assert (unknown.value.error_num, wrong.value.error_num) == (-136, -206)

    def test_web_log_in_accepts_the_same_password_as_the_client(self) -> None:
        made = ada()
        assert authenticate(None, username="ada@EXAMPLE.org", password="secret") == made.account
        assert authenticate(None, username=EMAIL, password="Secret") is None
        assert authenticate(None, username="b@example.org", password="secret") is None

    def test_an_inactive_account_cannot_log_in_or_use_its_key(self) -> None:
        made = ada()
        Account.objects.update(is_active=False)
        assert authenticate(None, username=EMAIL, password="secret") is None
        assert account_keys.find_account_by_key(made.key) is None
        with pytest.raises(accounts.UnknownEmail):
            accounts.look_up(email=EMAIL, passwd_hash=DIGEST, now=LATER)

    def test_a_superuser_created_by_django_can_log_in(self) -> None:
        boss = Account.objects.create_superuser(email="boss@example.org", password="pw")
        assert (boss.is_staff, boss.is_superuser, boss.name) == (True, True, "boss")
        assert boss.created_at.tzinfo is not None
        assert authenticate(None, username="boss@example.org", password="pw") == boss
        with pytest.raises(accounts.EmailTaken):
            accounts.create_staff(email="Boss@example.org", password="pw", now=NOON)


@pytest.mark.django_db
class TestKeys:
    """Keys by which clients identify their account."""

    def test_strong_and_weak_key_find_their_account_in_one_statement(self) -> None:
        made = ada()
        weak = said(the_key(made.account, AccountKey.Kind.WEAK))
        with CaptureQueriesContext(connection) as captured:
            strong = account_keys.find_account_by_key(f' "{made.key}"\n')
        assert len(captured) == 1
        assert strong[:2] == (made.account, AccountKey.Kind.STRONG)
        assert account_keys.find_account_by_key(weak)[:2] == (made.account, AccountKey.Kind.WEAK)
        assert account_keys.find_account_by_key("0" * 32) is None

    def test_a_password_change_replaces_the_weak_key_and_keeps_the_strong_key(self) -> None:
        made = ada()
        weak = said(the_key(made.account, AccountKey.Kind.WEAK))
        digest = accounts.password_digest(email=EMAIL, password="other")
        changed = accounts.change_password(account=made.account, passwd_hash=digest, now=LATER)
        assert changed.key == made.key
        assert account_keys.find_account_by_key(weak) is None
        new_weak = said(the_key(made.account, AccountKey.Kind.WEAK))
        assert account_keys.find_account_by_key(new_weak) is not None
        assert authenticate(None, username=EMAIL, password="other") == made.account
        assert authenticate(None, username=EMAIL, password="secret") is None

    def test_trap_31_rehashing_the_password_does_not_change_the_weak_key(self) -> None:
        """PROTOCOL trap 31."""
        made = ada()
        weak = said(the_key(made.account, AccountKey.Kind.WEAK))
        made.account.set_password("secret")
        made.account.save()
        assert account_keys.find_account_by_key(weak)[:2] == (made.account, AccountKey.Kind.WEAK)

    def test_a_named_key_is_valid_until_it_is_revoked(self) -> None:
        made = ada()
        key = account_keys.new_key(account=made.account, name="cluster", now=LATER)
        assert account_keys.find_account_by_key(key)[:2] == (made.account, AccountKey.Kind.STRONG)
        assert accounts.look_up(email=EMAIL, passwd_hash=DIGEST, now=LATER) == replace(
            made, created=False
        )
        row = made.account.keys.get(name="cluster")
        assert account_keys.revoke_key(account=made.account, key_id=row.pk, now=LATER) is None
        assert account_keys.find_account_by_key(key) is None
        assert account_keys.find_account_by_key(made.key) is not None

    def test_revoking_the_current_key_replaces_the_strong_and_the_weak_key(self) -> None:
        made = ada()
        weak = said(the_key(made.account, AccountKey.Kind.WEAK))
        row = the_key(made.account, AccountKey.Kind.STRONG)
        new = account_keys.revoke_key(account=made.account, key_id=row.pk, now=LATER)
        login = accounts.look_up(email=EMAIL, passwd_hash=DIGEST, now=LATER)
        assert login is not None
        assert login.key == new != made.key
        assert account_keys.find_account_by_key(made.key) is None
        assert account_keys.find_account_by_key(weak) is None

    def test_a_revoked_weak_key_is_replaced(self) -> None:
        made = ada()
        row = the_key(made.account, AccountKey.Kind.WEAK)
        new = account_keys.revoke_key(account=made.account, key_id=row.pk, now=LATER)
        assert new not in {None, said(row)}
        assert account_keys.find_account_by_key(made.key) is not None

    def test_a_key_can_be_revoked_once_and_only_by_its_owner(self) -> None:
        made = ada()
        other = accounts.create_account(
            email="b@example.org", passwd_hash=DIGEST, name="B", now=NOON
        )
        row = the_key(made.account, AccountKey.Kind.STRONG)
        with pytest.raises(account_keys.UnknownKey):
            account_keys.revoke_key(account=other.account, key_id=row.pk, now=LATER)
        account_keys.revoke_key(account=made.account, key_id=row.pk, now=LATER)
        with pytest.raises(account_keys.UnknownKey):
            account_keys.revoke_key(account=made.account, key_id=row.pk, now=LATER)

    def test_a_new_key_without_a_name_is_refused(self) -> None:
        with pytest.raises(account_keys.BadName):
            account_keys.new_key(account=ada().account, name="", now=LATER)
