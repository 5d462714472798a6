"""Finds accounts by their keys; creates, renews and revokes keys.

Theory of operation.  A row stores a key twice: hashed, to look up the key, and encrypted, to return
the key at log-in.  An account has one current strong key and one current weak key.  The weak key is
derived from the current strong key and the stored password hash, and is renewed when the strong key
or the password changes (PROTOCOL 1.6).  It is looked up by its own hash, so rehashing a password
does not change the key (PROTOCOL trap 31).  Submission keys are never current, so log-in cannot
return a submission key.  Existing keys are changed only while the account's row is locked.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime
from typing import NamedTuple

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.expressions import Combinable

from scheduler import signing
from scheduler.models import Account, AccountKey
from scheduler.people import audit

_MAX_NAME, _MAX_KEY_NAME = 254, 100


class AccountRefused(ValueError):
    """An account, password or key is refused. Hint: see the message."""

    error_num = -1


class BadName(AccountRefused):
    """The name of an account or key is not valid. Hint: see the message."""

    error_num = -188


class UnknownKey(AccountRefused):
    """The account has no such unrevoked key. Hint: list the account's keys."""


class KeyOwner(NamedTuple):
    """An account, with the key that identified it and the kind of this key."""

    account: Account
    kind: AccountKey.Kind
    key: AccountKey


def key_hash(key: str) -> str:
    """Return a key's SHA-256 as 64 hex digits.  Keys are random, so no salt is needed."""
    return hashlib.sha256(key.encode()).hexdigest()


def find_account_by_key(key: str) -> KeyOwner | None:
    """Return the active account that has this unrevoked key, and the key, or None.

    Executes one statement.  White space and quotation marks around the key are ignored, as by
    BOINC's server.
    """
    row = (
        AccountKey.objects.select_related("account")
        .filter(
            key_hash=key_hash(key.strip().strip("'\"")),
            revoked_at__isnull=True,
            account__is_active=True,
        )
        .first()
    )
    return KeyOwner(row.account, AccountKey.Kind(row.kind), row) if row else None


def good_name(name: str) -> str:
    """Return the name without surrounding white space; raise `BadName` if it is invalid."""
    stripped = name.strip()
    if (
        not 0 < len(stripped) <= _MAX_NAME
        or not stripped.isprintable()
        or set("<>") & set(stripped)
    ):
        msg = f"{name[:60]!r} is not a name. Hint: give 1 to {_MAX_NAME} characters, no < or >."
        raise BadName(msg)
    return stripped


def current_key(account: Account, kind: AccountKey.Kind) -> AccountKey | None:
    """Return the account's current key of this kind, or None."""
    return account.keys.filter(kind=kind, is_current=True).first()


def new_key(
    *, account: Account, name: str, kind: AccountKey.Kind = AccountKey.Kind.STRONG, now: datetime
) -> str:
    """Create a strong or submission key and return its text.

    The current keys stay valid.  Raises `BadName` for an empty or too long name.  Raises
    `AccountRefused` for a weak key, because an account has only one weak key.
    """
    if not 0 < len(name) <= _MAX_KEY_NAME:
        msg = f"The key's name has {len(name)} characters. Hint: give 1 to {_MAX_KEY_NAME}."
        raise BadName(msg)
    if kind is AccountKey.Kind.WEAK:
        raise AccountRefused(
            "An account has only one weak key. Hint: revoke the weak key to renew it."
        )
    key = secrets.token_hex(16)
    with transaction.atomic():
        _save_key(account, key, kind, name, now, is_current=False)
        audit.record(
            audit.Event.KEY_CREATED, now=now, subject=account.email, details=_details(kind, name)
        )
    return key


def first_submission_key(*, account: Account, now: datetime) -> str | None:
    """Create and return a submission key; return None if the account has a submission key."""
    with transaction.atomic():
        locked = lock(account)
        if live_keys(locked, AccountKey.Kind.SUBMISSION).exists():
            return None
        kind = AccountKey.Kind.SUBMISSION
        return new_key(account=locked, name="submission key", kind=kind, now=now)


def weak_key(account: Account) -> str:
    """Return the account's weak key; raise `UnknownKey` if it has none."""
    current = current_key(account, AccountKey.Kind.WEAK)
    if current is None:
        msg = f"Account {account.pk} has no weak key. Hint: change its password to get one."
        raise UnknownKey(msg)
    return signing.unseal(bytes(current.sealed))


def live_keys(account: Account, kind: AccountKey.Kind | None = None) -> QuerySet[AccountKey]:
    """Return the account's unrevoked keys; `kind` None means all kinds."""
    keys = account.keys.filter(revoked_at__isnull=True).order_by("pk")
    return keys if kind is None else keys.filter(kind=kind)


def record_use(account: Account, key: AccountKey, *, now: datetime) -> None:
    """Record the use of a submission key in the audit log, at most once per day and address.

    Also sets the account as the actor of later audit entries (`audit.identify`).
    """
    audit.identify(account)
    audit.record_daily(
        audit.Event.KEY_USED,
        now=now,
        subject=f"key {key.pk}",
        details=_details(AccountKey.Kind(key.kind), key.name),
    )


def revoke_after_password_change(
    account: Account, *, revoke_host_keys: bool, now: datetime
) -> dict[str, int]:
    """Revoke the locked account's submission keys and renew its weak key.

    `revoke_host_keys` also revokes the strong keys and creates a new strong key.  Returns the
    numbers of revoked keys: `submission_keys` and, with `revoke_host_keys`, `host_keys`.
    """
    counts = {"submission_keys": _revoke_all(account, AccountKey.Kind.SUBMISSION, now)}
    if revoke_host_keys:
        counts["host_keys"] = _revoke_all(account, AccountKey.Kind.STRONG, now)
    current = current_key(account, AccountKey.Kind.STRONG)
    key = signing.unseal(bytes(current.sealed)) if current else secrets.token_hex(16)
    if current is None:
        _save_key(account, key, AccountKey.Kind.STRONG, "key", now)
    renew_weak_key(account, key, now)
    return counts


def revoke_key(*, account: Account, key_id: int, now: datetime) -> str | None:
    """Revoke a key permanently; if it was current, return the new current key, else None.

    Clients with a revoked key get an error.  Raises `UnknownKey` if the account has no unrevoked
    key with this id.
    """
    with transaction.atomic():
        locked = lock(account)
        revoked = locked.keys.filter(pk=key_id, revoked_at__isnull=True).first()
        if revoked is None:
            raise UnknownKey(f"The account has no unrevoked key {key_id}. Hint: list its keys.")
        was_current, kind = revoked.is_current, AccountKey.Kind(revoked.kind)
        _revoke(revoked, now)
        audit.record(
            audit.Event.KEY_REVOKED,
            now=now,
            subject=account.email,
            details={"id": key_id} | _details(kind, revoked.name),
        )
        if not was_current:
            return None
        if kind is AccountKey.Kind.WEAK:
            return renew_weak_key(locked, login_key(locked), now)
        key = secrets.token_hex(16)
        _save_key(locked, key, AccountKey.Kind.STRONG, revoked.name, now)
        renew_weak_key(locked, key, now)
        return key


def first_keys(account: Account, now: datetime | Combinable) -> str:
    """Create the strong key and the weak key of a new account; return the strong key."""
    key = secrets.token_hex(16)
    _save_key(account, key, AccountKey.Kind.STRONG, "first key", now)
    _save_key(account, _weak_key(account, key), AccountKey.Kind.WEAK, "weak key", now)
    return key


def lock(account: Account) -> Account:
    """Lock the account's row and return the account, read again from the database."""
    return Account.objects.select_for_update(no_key=True).get(pk=account.pk)


def login_key(account: Account) -> str:
    """Return the account's current strong key; raise `UnknownKey` if it has none."""
    current = current_key(account, AccountKey.Kind.STRONG)
    if current is None:
        raise UnknownKey(f"Account {account.pk} has no current key. Hint: change its password.")
    return signing.unseal(bytes(current.sealed))


def renew_weak_key(account: Account, key: str, now: datetime) -> str:
    """Replace the weak key of the locked account, and return the new weak key.

    The new weak key is derived from the strong key `key`, the password hash and a random salt.
    """
    if old := current_key(account, AccountKey.Kind.WEAK):
        _revoke(old, now)
    # The salt changes the weak key even if the strong key and the password are unchanged.
    weak = _weak_key(account, key, salt=secrets.token_hex(8))
    _save_key(account, weak, AccountKey.Kind.WEAK, "weak key", now)
    return weak


def _weak_key(account: Account, key: str, *, salt: str = "") -> str:
    source = (key + account.password + salt).encode()
    return f"{account.pk}_{hashlib.md5(source, usedforsecurity=False).hexdigest()}"


def _details(kind: AccountKey.Kind, name: str) -> dict[str, str]:
    return {"kind": kind.name.lower(), "name": name}


def _revoke_all(account: Account, kind: AccountKey.Kind, now: datetime) -> int:
    return live_keys(account, kind).order_by().update(is_current=False, revoked_at=now)


def _revoke(key: AccountKey, now: datetime) -> None:
    key.is_current, key.revoked_at = False, now
    key.save(update_fields=["is_current", "revoked_at"])


def _save_key(
    account: Account,
    key: str,
    kind: AccountKey.Kind,
    name: str,
    now: datetime | Combinable,
    *,
    is_current: bool = True,
) -> None:
    AccountKey.objects.create(
        account=account,
        kind=kind,
        name=name,
        key_hash=key_hash(key),
        sealed=signing.seal(key),
        is_current=is_current,
        created_at=now,
    )
