"""Reads a result of a volunteer with its history, siblings and credit.

A sibling result shows whether a result will be compared.  A volunteer who learned this before the
report could send a wrong answer that will not be compared, which defeats the random checks of
adaptive replication.  Several accounts can belong to one person.  Therefore, siblings are read only
once the workunit has an answer or has failed, and no result of the account is in progress.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from django.db.models import Q
from django.db.models.functions import Right

from scheduler.lifecycle import Axis, ResultState, ServerState
from scheduler.models import Account, CreditEntry, Result
from scheduler.people import sharing
from scheduler.work.timeline import describe_move, moves_of
from scheduler.work.volunteers import timeline_texts
from scheduler.work.volunteers.result_states import OwnState, state_of, why, why_credit

#: Limits on what one page shows.
MAX_STDERR, MAX_MOVES, MAX_SIBLINGS = 16_384, 100, 50
#: Moves of these axes are shown; those of files concern only the server.
_AXES: Final = (Axis.RESULT, Axis.VALIDATION)
_BEFORE_SENDING: Final = (
    (Axis.RESULT, ResultState.INACTIVE),
    (Axis.RESULT, ResultState.UNSENT),
)


@dataclass(frozen=True, slots=True)
class Sibling:
    """Another result of the same workunit.

    `state` is None for a result that was not sent yet.  `own_id` is the id of the result if it
    belongs to the same account.  `shown_host_id` is the id of its host if the host's owner shows
    it.
    """

    state: OwnState | None
    own_id: int | None
    shown_host_id: int | None


@dataclass(frozen=True, slots=True)
class Moment:
    """A step of the timeline: a sentence, and the labels of the move as text."""

    at: datetime
    text: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Grant:
    """Credit that was granted for the result, and how the rule computes it.

    For a valid result, `rule` is the app's rule, which staff may have changed since the grant.
    """

    at: datetime
    amount: Decimal
    rule: str
    why: str


@dataclass(frozen=True, slots=True)
class ResultDetails:
    """A result with its timeline, siblings and credit.

    `siblings` is None while they are withheld.  `stderr` is the end of the reported text, and
    `stderr_is_cut` is true if earlier text is left out.
    """

    result: Result
    state: OwnState
    why: str
    timeline: tuple[Moment, ...]
    siblings: tuple[Sibling, ...] | None
    grants: tuple[Grant, ...]
    stderr: str
    stderr_is_cut: bool


def find(account: Account, result_id: int) -> ResultDetails | None:
    """Return a result of the account's computers, or None.  Executes at most five statements."""
    rows = Result.objects.filter(pk=result_id, host__account=account).defer("stderr", "stdout")
    rows = rows.select_related("host", "workunit", "app", "app_version__platform")
    result = rows.annotate(stderr_end=Right("stderr", MAX_STDERR + 1)).first()
    if result is None:
        return None
    stderr: str = result.stderr_end
    states = (result.server_state, result.outcome, result.validate_state)
    return ResultDetails(
        result=result,
        state=state_of(*states),
        why=why(*states, result.exit_status),
        timeline=_timeline(result),
        siblings=_siblings(account, result),
        grants=_grants(result),
        stderr=stderr[-MAX_STDERR:],
        stderr_is_cut=len(stderr) > MAX_STDERR,
    )


def _timeline(result: Result) -> tuple[Moment, ...]:
    """Return the moves of the result since it was sent, or its stored times without a ledger."""
    moves = moves_of(result.workunit_id, result_id=result.pk, newest=MAX_MOVES)
    moments = []
    for entry in moves:
        if (entry.axis, entry.target) not in _BEFORE_SENDING and entry.axis in _AXES:
            labels = describe_move(entry)
            text = f"{labels.target}: {labels.because}"
            sentence = timeline_texts.sentence_of(entry.axis, entry.target, entry.because)
            moments.append(Moment(entry.at, text, sentence))
    if moments:
        return tuple(moments)
    stored = (
        (result.sent_at, "sent", timeline_texts.SENT),
        (result.received_at, "ended", timeline_texts.ENDED),
    )
    return tuple(Moment(at, text, sentence) for at, text, sentence in stored if at is not None)


def _siblings(account: Account, result: Result) -> tuple[Sibling, ...] | None:
    workunit = result.workunit
    is_decided = workunit.canonical_result_id is not None or workunit.error_mask
    if result.server_state != ServerState.OVER or not is_decided:
        return None
    others = Result.objects.filter(workunit_id=result.workunit_id).exclude(pk=result.pk)
    if others.filter(server_state=ServerState.IN_PROGRESS, account=account).exists():
        return None
    rows = others.filter(Q(host__isnull=False) | Q(server_state=ServerState.UNSENT))
    rows = rows.select_related("host__account").defer("stderr", "stdout").order_by("pk")
    return tuple(_sibling(account, row) for row in rows[:MAX_SIBLINGS])


def _sibling(account: Account, row: Result) -> Sibling:
    host = row.host
    if host is None:
        return Sibling(None, None, None)
    is_own = host.account_id == account.pk
    return Sibling(
        state=state_of(row.server_state, row.outcome, row.validate_state),
        own_id=row.pk if is_own else None,
        shown_host_id=host.pk if not is_own and sharing.is_shown(host) else None,
    )


def _grants(result: Result) -> tuple[Grant, ...]:
    entries = CreditEntry.objects.filter(result_id=result.pk, amount__gt=0).order_by("pk")
    return tuple(_grant(entry, result.app.credit_rule) for entry in entries)


def _grant(entry: CreditEntry, rule_of_app: str) -> Grant:
    rule = rule_of_app if entry.rule == CreditEntry.VALIDATED else entry.rule
    return Grant(entry.granted_at, entry.amount, rule, why_credit(rule))
