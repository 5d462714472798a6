"""Grants and revokes credit by hand.

A grant is for an account and optionally one of its computers.  Its entry has the rule `RULE` and
no result; a row in `ManualGrant` has the reason and the person.  The entry and the totals are
written in one transaction, under the locks of the validator and in the same order: host, account,
team, app.  The totals of hosts and teams by app are counted later (`app_credits`).

Recent averages do not change.  They state the credit per day of computers in recent weeks, and a
grant by hand is not work of these weeks: a prize would put an idle computer on top of a leaderboard
for weeks, and a withdrawal for old work would hide the present work of a computer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, TypeVar
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F, Model
from psycopg.errors import UniqueViolation

from scheduler.credit import app_credits
from scheduler.credit.rules.grant_amounts import (
    RULE,
    Change,
    GrantRefused,
    Total,
    changes,
    check_amount,
    checked_reason,
)
from scheduler.models import Account, AccountAppCredit, App, CreditEntry, Host, ManualGrant, Team
from scheduler.people import audit

#: Maximum number of grants that the page of an account shows.
MAX_SHOWN: Final = 20
_SENT_TWICE: Final = "This grant was made already. Hint: the page was sent twice."
Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class GrantRequest:
    """A grant to an account; a negative amount revokes credit.

    With `host_id`, the amount also counts for this computer of the account, and with `app_id` for
    the app.  With `with_team`, it also counts for the account's present team.  A second request
    with the same `request_id` is refused.
    """

    request_id: UUID
    account_id: int
    amount: Decimal
    reason: str
    host_id: int | None = None
    app_id: int | None = None
    with_team: bool = True


@dataclass(frozen=True, slots=True)
class _Owners:
    """The rows whose totals a grant changes; `app_credit` is the account's credit for `app`."""

    host: Host | None
    account: Account
    team: Team | None
    app: App | None
    app_credit: Decimal

    def totals(self) -> list[Total]:
        """Return the totals, the account's first."""
        account, host, team, app = self.account, self.host, self.team, self.app
        totals = [Total(f"account {account.pk}", account.total_credit)]
        if host is not None:
            totals.append(Total(f"computer {host.pk}", host.total_credit))
        if team is not None:
            totals.append(Total(f"team {team.pk}", team.total_credit))
        if app is not None:
            totals.append(Total(f"account {account.pk} for app {app.name}", self.app_credit))
            totals.append(Total(f"app {app.name}", app.total_credit))
        return totals


def preview(request: GrantRequest) -> tuple[Change, ...]:
    """Return what a grant would change, without changing it; raises `GrantRefused`."""
    check_amount(request.amount)
    checked_reason(request.reason)
    return changes(_owners(request, is_locked=False).totals(), request.amount)


def grant(
    request: GrantRequest, *, granted_by: Account | None, now: datetime
) -> tuple[Change, ...]:
    """Write the entry, the totals and an audit entry; return the changed totals.

    `granted_by` is None for the shell.  Raises `GrantRefused`; then nothing is changed.
    """
    check_amount(request.amount)
    reason = checked_reason(request.reason)
    try:
        return _grant(request, reason, granted_by, now)
    except IntegrityError as error:
        # The same page was sent for another account at the same time.
        if isinstance(error.__cause__, UniqueViolation):
            raise GrantRefused(_SENT_TWICE) from error
        raise


def _grant(
    request: GrantRequest, reason: str, granted_by: Account | None, now: datetime
) -> tuple[Change, ...]:
    with transaction.atomic():
        # Before any row, as in the validator.
        app_credits.share_entry_lock()
        owners = _owners(request, is_locked=True)
        if ManualGrant.objects.filter(request_id=request.request_id).exists():
            raise GrantRefused(_SENT_TWICE)
        changed = changes(owners.totals(), request.amount)
        entry = CreditEntry.objects.create(
            rule=RULE,
            account=owners.account,
            host=owners.host,
            team=owners.team,
            app=owners.app,
            amount=request.amount,
            granted_at=now,
        )
        ManualGrant.objects.create(
            entry=entry,
            account=owners.account,
            reason=reason,
            granted_by=granted_by,
            actor="" if granted_by is not None else audit.current_actor().name,
            request_id=request.request_id,
        )
        _add(owners, request.amount)
        _record(request, owners, reason, entry, now=now)
    return changed


def newest_grants(account: Account) -> list[ManualGrant]:
    """Return the newest grants by hand to an account, with their entries; at most `MAX_SHOWN`."""
    grants = ManualGrant.objects.filter(account=account).select_related("entry")
    return list(grants.order_by("-pk")[:MAX_SHOWN])


def _owners(request: GrantRequest, *, is_locked: bool) -> _Owners:
    host = _row(Host, request.host_id, is_locked=is_locked)
    account = _row(Account, request.account_id, is_locked=is_locked)
    if account is None:
        raise GrantRefused(f"There is no account {request.account_id}. Hint: check the number.")
    _check_host(request, host)
    team_id = account.team_id if request.with_team else None
    team = _row(Team, team_id, is_locked=is_locked)
    app = _row(App, request.app_id, is_locked=is_locked)
    if app is None and request.app_id is not None:
        raise GrantRefused(f"There is no app {request.app_id}. Hint: choose an existing app.")
    by_app = AccountAppCredit.objects.filter(account=account, app=app).first() if app else None
    return _Owners(host, account, team, app, by_app.total if by_app else Decimal(0))


def _row(model: type[Row], row_id: int | None, *, is_locked: bool) -> Row | None:
    """Return a row, locked if `is_locked`; None if `row_id` is None or no row has it."""
    if row_id is None:
        return None
    rows = model._default_manager.filter(pk=row_id)
    return (rows.select_for_update(no_key=True) if is_locked else rows).first()


def _check_host(request: GrantRequest, host: Host | None) -> None:
    """Raise `GrantRefused` unless the computer is an unmerged one of the account."""
    if request.host_id is None:
        return
    if host is None or host.account_id != request.account_id:
        raise GrantRefused(
            f"Account {request.account_id} has no computer {request.host_id}. "
            "Hint: leave the computer out, or choose one of the account."
        )
    if host.merged_into_id is not None and not host.is_deleted:
        raise GrantRefused(
            f"Computer {host.pk} is merged into computer {host.merged_into_id}. "
            "Hint: choose that computer."
        )


def _add(owners: _Owners, amount: Decimal) -> None:
    more: dict[str, Any] = {"total_credit": F("total_credit") + amount}
    rows: Sequence[Model | None] = (owners.host, owners.account, owners.team, owners.app)
    for row in rows:
        if row is not None:
            type(row)._default_manager.filter(pk=row.pk).update(**more)
    if owners.app is not None:
        AccountAppCredit.objects.update_or_create(
            account=owners.account,
            app=owners.app,
            defaults={"total": owners.app_credit + amount},
        )


def _record(
    request: GrantRequest, owners: _Owners, reason: str, entry: CreditEntry, *, now: datetime
) -> None:
    details = {
        "entry": entry.pk,
        "amount": request.amount,
        "reason": reason,
        "account": owners.account.pk,
        "host": request.host_id,
        "team": owners.team and owners.team.pk,
        "app": owners.app and owners.app.name,
    }
    subject = owners.account.email
    audit.record(audit.Event.CREDIT_GRANTED, now=now, subject=subject, details=details)
