"""Reads one workunit as the transitioner reads it, with its timeline."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import F

from scheduler.facts.work import (
    JOINED,
    RESULT_COLUMNS,
    WORKUNIT_COLUMNS,
    ResultFacts,
    WorkunitFacts,
)
from scheduler.lifecycle import Axis, Outcome, ServerState, next_moves
from scheduler.models import Result, Workunit
from scheduler.models.science import OneResultPer
from scheduler.policy.explanation import at, explain, explain_result
from scheduler.queries.timeline import describe_move, moves_of


class UnknownName(LookupError):
    """Neither a workunit nor a result has this name. Hint: finished ones are in the archive."""


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a timeline."""

    at: datetime
    subject: str
    axis: str
    source: str
    target: str
    because: str
    by: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a workunit or a result is, how it came there, and what it waits for."""

    kind: str
    name: str
    workunit: str
    timeline: tuple[Step, ...]
    reasons: tuple[str, ...]
    may_happen: tuple[str, ...]
    ledger_is_on: bool


def explanation_of(name: str, *, now: datetime) -> Explanation:
    """Explain a workunit or a result by its name; raises `UnknownName`."""
    result = Result.objects.filter(name=name).values("id", "workunit_id").first()
    if result is not None:
        facts = workunit_facts(result["workunit_id"])
        own = next(one for one in facts.results if one.id == result["id"])
        reasons = (*explain_result(own), *_waits_of(own, now=now))
        may_happen = tuple(str(move) for move in next_moves(Axis.RESULT, _state(own)))
        timeline = timeline_of(facts, result_id=own.id)
        return Explanation(
            "result", name, facts.name, timeline, reasons, may_happen, settings.PROJECT.ledger
        )
    workunit_id = Workunit.objects.filter(name=name).values_list("id", flat=True).first()
    if workunit_id is None:
        msg = (
            f"There is no workunit or result named {name!r}. "
            "Hint: finished ones are dropped; look for the name in var/archive."
        )
        raise UnknownName(msg)
    facts = workunit_facts(workunit_id)
    return Explanation(
        "workunit",
        name,
        name,
        timeline_of(facts),
        explain(facts, now=now),
        (),
        settings.PROJECT.ledger,
    )


def workunit_facts(workunit_id: int) -> WorkunitFacts:
    """Read a workunit with its results; raises Workunit.DoesNotExist."""
    joined = {name: F(path) for name, path in JOINED.items()}
    columns = Workunit.objects.filter(pk=workunit_id).values(*WORKUNIT_COLUMNS, **joined).get()
    results = Result.objects.filter(workunit_id=workunit_id).order_by("id").values(*RESULT_COLUMNS)
    return WorkunitFacts(**columns, results=tuple(ResultFacts(**row) for row in results))


def timeline_of(workunit: WorkunitFacts, *, result_id: int | None = None) -> tuple[Step, ...]:
    """The moves of a workunit and all its results, or of one of them, oldest first."""
    names: dict[int | None, str] = {result.id: result.name for result in workunit.results}
    return tuple(
        Step(
            at=entry.at,
            subject=names.get(entry.result_id, workunit.name),
            **describe_move(entry)._asdict(),
        )
        for entry in moves_of(workunit.id, result_id=result_id)
    )


def _state(result: ResultFacts) -> int:
    return 10 * result.server_state + result.outcome


def _waits_of(result: ResultFacts, *, now: datetime) -> tuple[str, ...]:
    """Whom an unsent replacement may not go to, and until when."""
    own = Result.objects.select_related("app").get(pk=result.id)
    kind = own.app.one_result_per
    if own.server_state != ServerState.UNSENT or kind == OneResultPer.NOTHING:
        return ()
    others = Result.objects.filter(workunit_id=own.workunit_id, sent_at__isnull=False)
    lines = []
    for other in others.select_related("account", "host").order_by("id"):
        who = f"{kind} {other.account if kind == OneResultPer.ACCOUNT else other.host}"
        ended = other.received_at or other.report_deadline
        if other.server_state == ServerState.IN_PROGRESS or other.outcome == Outcome.SUCCESS:
            lines.append(f"does not go to {who}, which has {other.name}")
        elif ended is not None and ended + own.app.retry_same_account_after > now:
            again = at(ended + own.app.retry_same_account_after)
            lines.append(f"does not go back to {who}, which had {other.name}, before {again}")
    return tuple(lines)
