"""Blocks accounts, so that nothing can be done in their names, and unblocks them.

Theory of operation.  A block clears `Account.is_active`; nothing is deleted or revoked.  While an
account is blocked, its sessions, keys and API tokens are refused, so that its hosts can neither get
work nor report results.  After the account is unblocked, all of them are valid again, unless they
have expired.  Work that the account submitted continues.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import transaction

from scheduler import sql
from scheduler.models import Account
from scheduler.people import audit, roles
from scheduler.people.audit import Event
from scheduler.people.personal_data.erasure import is_erased

#: The maximum length of a reason.
MAX_REASON: Final = 200
_MAX_NAMES: Final = 10


class BlockRefused(ValueError):
    """An account cannot be blocked or unblocked. Hint: see the message."""


@dataclass(frozen=True, slots=True)
class Effects:
    """The hosts, results in progress, valid API tokens and unfinished batches of accounts."""

    hosts: int
    results: int
    tokens: int
    batches: int


def effects(account_ids: Sequence[int], *, now: datetime) -> Effects:
    """Return what stops while the accounts are blocked, except for `batches`, which continue."""
    params = {"account_ids": list(account_ids), "now": now}
    [counted] = sql.fetch_into(Effects, "people/blocking/count_block_effects", params)
    return counted


def check(accounts: Collection[Account], *, blocked: bool, by: Account) -> None:
    """Raise `BlockRefused` if `by` may not block or unblock one of the accounts.

    These are the accounts that `roles.may_change` excludes, the own account, and, if they would be
    unblocked, those whose data were erased.
    """
    if by.pk in {account.pk for account in accounts}:
        raise BlockRefused(
            "Your own account is among them, and you would be locked out. Hint: leave it out."
        )
    if refused := roles.unchangeable(by, list(accounts)):
        raise BlockRefused(
            f"You may not change {_names(refused)}, because of rights that you do not have. "
            "Hint: ask a superuser."
        )
    erased = [] if blocked else [account for account in accounts if is_erased(account)]
    if erased:
        raise BlockRefused(
            f"The data of {_names(erased)} were erased for good. Hint: leave these accounts out."
        )


def change(
    account_ids: Collection[int], *, blocked: bool, reason: str, by: Account, now: datetime
) -> list[Account]:
    """Block or unblock accounts, with an audit entry each; return the changed accounts.

    `by` is the person who does it.  Raises `BlockRefused` as `check` does; then nothing is changed.
    """
    with transaction.atomic():
        rows = Account.objects.filter(pk__in=account_ids, is_active=blocked).order_by("pk")
        accounts = list(rows.select_for_update(no_key=True))
        check(accounts, blocked=blocked, by=by)
        ids = [account.pk for account in accounts]
        Account.objects.filter(pk__in=ids).update(is_active=not blocked)
        audit.record_all(
            Event.RIGHTS_CHANGED,
            now=now,
            subjects=[account.email for account in accounts],
            details={
                "is_active": {"from": blocked, "to": not blocked},
                "reason": reason[:MAX_REASON],
            },
        )
    return accounts


def _names(accounts: Sequence[Account]) -> str:
    shown = ", ".join(str(account) for account in accounts[:_MAX_NAMES])
    return f"{shown}, ..." if len(accounts) > _MAX_NAMES else shown
