"""Read whose key it is, and who has an e-mail address."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from scheduler.models import Account, AccountKey


class KeyOwner(NamedTuple):
    """An account, and what the key by which it was found is good for."""

    account: Account
    kind: AccountKey.Kind
    key: AccountKey


def key_hash(key: str) -> str:
    """What a key is found by: SHA-256, 64 hex digits.  Keys are random, so no salt is needed."""
    return hashlib.sha256(key.encode()).hexdigest()


def find_account_by_key(key: str) -> KeyOwner | None:
    """Find whose strong or weak key it is, in one statement; None if nobody's, or revoked.

    White space and quotation marks around the key are ignored, as BOINC's server does.
    """
    found = (
        AccountKey.objects.select_related("account")
        .filter(
            key_hash=key_hash(key.strip().strip("'\"")),
            revoked_at__isnull=True,
            account__is_active=True,
        )
        .first()
    )
    return KeyOwner(found.account, AccountKey.Kind(found.kind), found) if found else None


def find_account_by_email(email: str) -> Account | None:
    """Find the account of an e-mail address, whatever its case: all are stored in lower case."""
    if "\0" in email:  # PostgreSQL would refuse to look it up
        return None
    return Account.objects.filter(email=email.strip().lower()).first()


def current_key(account: Account, kind: AccountKey.Kind) -> AccountKey | None:
    """Find the key of a kind that log-in returns."""
    return account.keys.filter(kind=kind, is_current=True).first()
