"""Reads a workunit for a volunteer who has or had a result of it.

The data that only the submitter may know are left out: inputs, the command line, `meta`, the batch
and the submitter.  The results of other computers are withheld as on the page of a result
(`own_result`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from django.db.models import Q

from scheduler.lifecycle import ServerState
from scheduler.models import Account, Result, Workunit
from scheduler.people import sharing
from scheduler.work.volunteers.own_result import MAX_SIBLINGS
from scheduler.work.volunteers.result_states import OwnState, state_of, why
from scheduler.work.volunteers.workunit_states import WorkunitState, why_workunit, workunit_state

#: The columns of results that are read.
_COLUMNS: Final = (
    *("workunit", "host", "server_state", "outcome", "validate_state", "exit_status"),
    *("sent_at", "report_deadline", "received_at", "granted_credit"),
)
_HOST_COLUMNS: Final = tuple(
    f"host__{name}" for name in ("account", "merged_into", "hidden", "domain_name", "p_fpops")
)
_OWNER_COLUMNS: Final = tuple(
    f"host__account__{name}" for name in ("is_active", "show_hosts", "share_statistics", "name")
)


@dataclass(frozen=True, slots=True)
class Replica:
    """A result of the workunit.

    `state` is None for a result that was not sent yet.  `own_id` and `why` are those of a result of
    the same account.  `host_id` is set if the host belongs to the account, or if its owner shows
    it; `owner_id` and `owner_name` are set if the owner also shares their statistics.
    """

    state: OwnState | None
    own_id: int | None
    why: str
    host_id: int | None
    host_name: str
    owner_id: int | None
    owner_name: str
    sent_at: datetime | None
    report_deadline: datetime | None
    received_at: datetime | None
    granted_credit: Decimal


@dataclass(frozen=True, slots=True)
class OwnWorkunit:
    """A workunit with the results of the account, and those of others.

    `others` is None while they are withheld.  `seconds_estimate` is the estimated run time on one
    processor of a computer of the account.
    """

    workunit: Workunit
    app: str
    state: WorkunitState
    why: str
    seconds_estimate: float
    own: tuple[Replica, ...]
    others: tuple[Replica, ...] | None


def find(account: Account, workunit_id: int) -> OwnWorkunit | None:
    """Return a workunit of which the account has a result, or None; at most two statements."""
    results = Result.objects.filter(workunit_id=workunit_id)
    own_rows = results.filter(host__account=account).select_related("host", "workunit__app")
    own = list(own_rows.defer("stderr", "stdout").order_by("pk")[:MAX_SIBLINGS])
    if not own:
        return None
    workunit = own[0].workunit
    mask = workunit.error_mask
    states = {state_of(row.server_state, row.outcome, row.validate_state) for row in own}
    state = workunit_state(
        has_answer=workunit.canonical_result_id is not None, error_mask=mask, own_states=states
    )
    speed = max((row.host.p_fpops for row in own if row.host is not None), default=0.0)
    return OwnWorkunit(
        workunit=workunit,
        app=workunit.app.user_friendly_name or workunit.app.name,
        state=state,
        why=why_workunit(state, error_mask=mask, own_states=states),
        seconds_estimate=workunit.rsc_fpops_est / speed if speed > 0 else 0.0,
        own=tuple(_replica(account, row) for row in own),
        others=None if state is WorkunitState.WAITING else _others(account, workunit_id),
    )


def _others(account: Account, workunit_id: int) -> tuple[Replica, ...]:
    rows = Result.objects.filter(workunit_id=workunit_id)
    sent = rows.filter(Q(host__isnull=False) | Q(server_state=ServerState.UNSENT))
    others = sent.exclude(host__account=account).select_related("host__account")
    listed = others.only(*_COLUMNS, *_HOST_COLUMNS, *_OWNER_COLUMNS).order_by("pk")
    return tuple(_replica(account, row) for row in listed[:MAX_SIBLINGS])


def _replica(account: Account, row: Result) -> Replica:
    host = row.host
    is_own = host is not None and host.account_id == account.pk
    shown_host = host if is_own or (host is not None and sharing.is_shown(host)) else None
    owner = None if is_own or shown_host is None else shown_host.account
    is_named = owner is not None and owner.share_statistics
    states = (row.server_state, row.outcome, row.validate_state)
    return Replica(
        state=None if host is None else state_of(*states),
        own_id=row.pk if is_own else None,
        why=why(*states, row.exit_status) if is_own else "",
        host_id=None if shown_host is None else shown_host.pk,
        host_name=host.domain_name if is_own and host is not None else "",
        owner_id=owner.pk if owner is not None and is_named else None,
        owner_name=owner.name if owner is not None and is_named else "",
        sent_at=row.sent_at,
        report_deadline=row.report_deadline,
        received_at=row.received_at,
        granted_credit=row.granted_credit,
    )
