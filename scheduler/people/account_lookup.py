"""Find accounts by key and by e-mail address."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from scheduler.models import Account, AccountKey


class KeyOwner(NamedTuple):
    """An account, and the key by which it was found with its kind."""

    account: Account
    kind: AccountKey.Kind
    key: AccountKey


def key_hash(key: str) -> str:
    """Return a key's SHA-256 as 64 hex digits.  Keys are random, so no salt is needed."""
    return hashlib.sha256(key.encode()).hexdigest()


def find_account_by_key(key: str) -> KeyOwner | None:
    """Return the active account of an unrevoked key, in one statement, or None.

    White space and quotation marks around the key are ignored, as BOINC's server does.
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


def find_account_by_email(email: str) -> Account | None:
    """Return the account of an e-mail address, ignoring case, or None."""
    if "\0" in email:  # PostgreSQL would refuse to look it up
        return None
    return Account.objects.filter(email=email.strip().lower()).first()


def current_key(account: Account, kind: AccountKey.Kind) -> AccountKey | None:
    """Return the account's current key of this kind, which log-in returns, or None."""
    return account.keys.filter(kind=kind, is_current=True).first()
