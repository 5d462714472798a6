"""Finds accounts by their keys; creates, renames, renews and revokes keys.

Theory of operation.  A row stores a key twice: hashed, to look up the key, and encrypted, to return
the key at log-in.  An account has one current strong key and one current weak key.  The weak key is
derived from the current strong key and the stored password hash, and is renewed when the strong key
or the password changes (PROTOCOL 1.6).  It is looked up by its own hash, so rehashing a password
does not change the key (PROTOCOL trap 31).  Submission keys are never current, so log-in cannot
return a submission key.  Existing keys are changed only while the account's row is locked, except
for the day of the last use.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime
from typing import Final, NamedTuple

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.expressions import Combinable

from scheduler import signing
from scheduler.models import Account, AccountKey
from scheduler.people import audit

_MAX_NAME = 254
MAX_KEY_NAME: Final = 100
#: Maximum number of valid keys of an account.  The page of keys lists all of them, and a link to an
#: output is compared with each submission key.
MAX_KEYS: Final = 50


class AccountRefused(ValueError):
    """An account, password or key is refused. Hint: see the message."""

    error_num = -1


class BadName(AccountRefused):
    """The name of an account or key is not valid. Hint: see the message."""

    error_num = -188


class UnknownKey(AccountRefused):
    """The account has no such unrevoked key. Hint: list the account's keys."""


class KeyRefused(AccountRefused):
    """The account cannot have another key now. Hint: see the message."""


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
    """Create a strong or submission key and return its text; see `create_key`."""
    return create_key(account=account, name=name, kind=kind, now=now)[1]


def create_key(
    *, account: Account, name: str, kind: AccountKey.Kind = AccountKey.Kind.STRONG, now: datetime
) -> tuple[AccountKey, str]:
    """Create a strong or submission key; return its row and its text.

    The current keys stay valid.  Raises `BadName` for a name that is empty, too long or not
    printable.  Raises `KeyRefused` for a weak key, because an account has only one weak key; if the
    account has `MAX_KEYS` keys; and if the password was changed after `account` was read, because
    the change has revoked what was created with the old password.
    """
    name = _good_key_name(name)
    if kind is AccountKey.Kind.WEAK:
        raise KeyRefused("An account has only one weak key. Hint: revoke the weak key to renew it.")
    key = secrets.token_hex(16)
    with transaction.atomic():
        locked = lock(account)
        if locked.password != account.password:
            raise KeyRefused("The password was changed meanwhile. Hint: log in again.")
        if live_keys(locked).count() >= MAX_KEYS:
            raise KeyRefused(
                f"The account has {MAX_KEYS} keys, which is the limit. Hint: revoke one first."
            )
        row = _save_key(locked, key, kind, name, now, is_current=False)
        audit.record(
            audit.Event.KEY_CREATED, now=now, subject=account.email, details=_details(kind, name)
        )
    return row, key


def rename_key(*, account: Account, key_id: int, name: str, now: datetime) -> AccountKey:
    """Rename a key; return it.

    Raises `BadName` as `create_key` does, and `UnknownKey` if the account has no unrevoked key with
    this id.
    """
    name = _good_key_name(name)
    with transaction.atomic():
        key = find_live(lock(account), key_id)
        if key.name != name:
            former, key.name = key.name, name
            key.save(update_fields=["name"])
            audit.record(
                audit.Event.ACCOUNT_CHANGED,
                now=now,
                subject=account.email,
                details={"key": key_id, "name": {"from": former, "to": name}},
            )
    return key


def _good_key_name(name: str) -> str:
    """Return the name without surrounding white space; raise `BadName` if it is invalid."""
    stripped = name.strip()
    if not 0 < len(stripped) <= MAX_KEY_NAME or not stripped.isprintable():
        raise BadName(
            f"{name[:60]!r} is not a name of a key. "
            f"Hint: give 1 to {MAX_KEY_NAME} characters, without line breaks."
        )
    return stripped


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


def find_live(account: Account, key_id: int) -> AccountKey:
    """Return the account's unrevoked key with this id; raise `UnknownKey` without one."""
    key = live_keys(account).filter(pk=key_id).first()
    if key is None:
        raise UnknownKey(f"The account has no unrevoked key {key_id}. Hint: list its keys.")
    return key


def record_use(account: Account, key: AccountKey, *, now: datetime) -> None:
    """Record the use of a submission key in the audit log, at most once per day and address.

    The day is also stored with the key.  Sets the account as the actor of later audit entries
    (`audit.identify`).
    """
    audit.identify(account)
    if key.last_used_on != now.date():
        AccountKey.objects.filter(pk=key.pk).update(last_used_on=now.date())
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
        revoked = find_live(locked, key_id)
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
) -> AccountKey:
    return AccountKey.objects.create(
        account=account,
        kind=kind,
        name=name,
        key_hash=key_hash(key),
        sealed=signing.seal(key),
        is_current=is_current,
        created_at=now,
    )
