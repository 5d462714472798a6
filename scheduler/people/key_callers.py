"""Identifies the callers of pages that take an account key."""

from __future__ import annotations

from datetime import datetime

from scheduler.models import AccountKey
from scheduler.people import audit, throttle
from scheduler.people.account_keys import AccountRefused, KeyOwner, find_account_by_key


class UnknownCaller(AccountRefused):
    """No active account has this key, or the key does not permit the call.

    Hint: use the account key that log-in returns.
    """

    error_num = -136


def identify(key: str, *, door: str, address: str, now: datetime) -> KeyOwner:
    """Return the account that has this strong key.

    Sets the account as the actor of later audit entries.  Raises `UnknownCaller` for another key;
    this is charged to the caller's network, and raises `TooManyAttempts` if its bucket is full.
    The network of a correct key is not limited, because account managers call for many people.
    `door` is the name of the page in the audit log.
    """
    owner = find_account_by_key(key)
    if owner is not None and owner.kind is AccountKey.Kind.STRONG:
        audit.identify(owner.account)
        return owner
    throttle.charge_query(door=door, email="", address=address, now=now)
    raise UnknownCaller(
        "No account has this key, or the key does not permit this. "
        "Hint: use the account key that log-in returns."
    )
