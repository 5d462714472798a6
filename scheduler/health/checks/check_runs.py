"""Stores the results of checks, and carries out the checks that staff request.

Theory of operation.  `manage.py fsck` and `manage.py recompute_credit` call `store` at their end.
Staff call `request` on a page.  The housekeeper then calls `advance` once a pass.  It locks the
oldest open run, carries out one step, and writes what it found and what remains, all in one
transaction.  A kill repeats at most one step, and another housekeeper skips the locked row.  A step
is one statement, or a few batches of sums, so that the housekeeper's other chores are not delayed
for long.  The transaction has one snapshot, which a comparison of a sum with its entries needs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, Final

from django.db import DatabaseError, IntegrityError, OperationalError, transaction
from django.db.models import QuerySet
from psycopg.errors import SerializationFailure

from scheduler import wakeups
from scheduler.health.checks.statement_limit import NotChecked, first_line, limited
from scheduler.health.invariants import one_snapshot
from scheduler.health.rules import check_findings
from scheduler.health.rules.check_findings import MAX_ROWS, Finding, Unchecked
from scheduler.models import Account, CheckRun
from scheduler.people import audit

log = logging.getLogger(__name__)

Kind = CheckRun.Kind
#: The number of ended runs of each check that are kept.  A timer that checks daily thus leaves the
#: runs of seven weeks, and the table stays small however often a timer runs.
MAX_RUNS: Final = 50
_JSON_COLUMNS: Final = ("findings", "carried", "not_checked")
_PROGRESS: Final = (
    *("started_at", "ended_at", "remaining", "after_id", "checked_names", "to_check"),
    *("checked", "skipped", "violations", "unresolved", *_JSON_COLUMNS),
)


class RunRefused(RuntimeError):
    """A check cannot be requested, such as one that is open. Hint: see the message."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The checked parts and the findings of a run from a shell.

    `checked_names` are the invariants or kinds of sums that were checked completely.
    """

    checked: int
    checked_names: Sequence[str]
    findings: Sequence[Finding]


@dataclass(frozen=True, slots=True)
class Step:
    """The outcome of one step of a requested run.

    `checked` and `skipped` are numbers of invariants or sums.  `after_id` is the last row that was
    compared, or None if the part is complete.
    """

    checked: int = 0
    skipped: int = 0
    finding: Finding | None = None
    unchecked: Unchecked | None = None
    after_id: int | None = None


@dataclass(frozen=True, slots=True)
class Checker:
    """The functions that carry out a requested run of one kind.

    `parts` returns the names of its parts, and `count` the number of invariants or sums in them.
    `step` carries out the next step of a part, from the row after the given id.
    """

    parts: Callable[[], Sequence[str]]
    count: Callable[[], int]
    step: Callable[[str, int], Step]
    max_rows: int = MAX_ROWS


# Staff


def request(kind: CheckRun.Kind, *, account: Account, now: datetime) -> CheckRun:
    """Request a run, which the housekeeper carries out; write an audit entry.

    Raises `RunRefused` if a requested run of this kind has not ended.
    """
    try:
        with transaction.atomic():
            run = CheckRun.objects.create(kind=kind, requested_by=account, requested_at=now)
            details = {"action": "request", "check": kind.value}
            subject = f"check run {run.pk}"
            audit.record(audit.Event.ACTION_TAKEN, now=now, subject=subject, details=details)
    except IntegrityError as error:
        msg = (
            f"A check of {kind.label} was requested already, and has not ended. "
            "Hint: reload this page to see its progress."
        )
        raise RunRefused(msg) from error
    wakeups.after_commit("housekeeper")
    return run


def newest(limit: int) -> list[CheckRun]:
    """Return the newest runs, without their findings: first the open ones, then the last ended."""
    runs = CheckRun.objects.select_related("requested_by").defer(*_JSON_COLUMNS)
    is_open = list(runs.filter(ended_at=None).order_by("requested_at", "pk"))
    ended = runs.filter(ended_at__isnull=False).order_by("-ended_at", "-pk")
    return [*is_open, *ended[:limit]]


# Commands


def store(
    kind: CheckRun.Kind,
    outcome: Outcome,
    *,
    options: Mapping[str, Any],
    started_at: datetime,
    ended_at: datetime,
) -> CheckRun:
    """Store a run from a shell that has ended; raises Django's error if that is not possible.

    With the option `applied`, the violations were corrected.
    """
    with transaction.atomic():
        run = CheckRun(
            kind=kind,
            options=dict(options),
            started_at=started_at,
            checked_names=list(outcome.checked_names),
            to_check=outcome.checked,
            checked=outcome.checked,
            violations=sum(finding.count for finding in outcome.findings),
            findings=[finding.as_json() for finding in outcome.findings],
        )
        _end(run, ended_at)
        run.save(force_insert=True)
    return run


# The housekeeper


def advance(checkers: Mapping[str, Checker], *, now: datetime) -> int:
    """Carry out the next step of the oldest open run; return 1, or 0 if no run is open.

    `checkers` has the functions of each kind.  Returns 0, too, if another housekeeper carries out
    the step.
    """
    if not _open_runs().exists():
        return 0
    began = monotonic()
    try:
        with one_snapshot(read_only=False):
            oldest = _open_runs().order_by("requested_at", "pk")
            run = oldest.select_for_update(no_key=True, skip_locked=True).first()
            if run is None:
                return 0
            checker = checkers[run.kind]
            if run.started_at is None:
                _start(run, checker, now)
            if run.remaining:
                _carry_out_step(run, checker)
            else:
                # In a step of its own, whose snapshot has every run that was stored meanwhile.
                _end(run, now + timedelta(seconds=monotonic() - began))
            run.save(update_fields=_PROGRESS)
    except OperationalError as error:
        # Another housekeeper changed the row between the snapshot and the lock.
        if isinstance(error.__cause__, SerializationFailure):
            return 0
        raise
    return 1


def drop_old() -> int:
    """Drop all but the newest `MAX_RUNS` ended runs of each kind; return their number."""
    dropped = 0
    for kind in Kind:
        ended = CheckRun.objects.filter(kind=kind, ended_at__isnull=False)
        newest_first = ended.order_by("-ended_at", "-pk").values_list("pk", flat=True)
        count, _ = CheckRun.objects.filter(pk__in=list(newest_first[MAX_RUNS:])).delete()
        dropped += count
    return dropped


def _open_runs() -> QuerySet[CheckRun]:
    return CheckRun.objects.filter(ended_at=None)


def _start(run: CheckRun, checker: Checker, now: datetime) -> None:
    run.started_at = now
    run.remaining = list(checker.parts())
    try:
        with limited():
            run.to_check = checker.count()
    except NotChecked:  # The page then shows no total.
        run.to_check = None


def _carry_out_step(run: CheckRun, checker: Checker) -> None:
    part = run.remaining[0]
    step = _step_of(checker, part, run)
    run.checked += step.checked
    run.skipped += step.skipped
    if step.finding is not None:
        run.violations += step.finding.count
        findings = check_findings.merged(
            _findings(run.findings), step.finding, max_rows=checker.max_rows
        )
        run.findings = [finding.as_json() for finding in findings]
    if step.unchecked is not None:
        parts = [Unchecked(**stored) for stored in run.not_checked]
        run.not_checked = list(map(asdict, check_findings.merged_unchecked(parts, step.unchecked)))
    if step.after_id is not None:
        run.after_id = step.after_id
        return
    if part not in {stored["name"] for stored in run.not_checked}:
        run.checked_names = [*run.checked_names, part]
    run.remaining, run.after_id = run.remaining[1:], 0


def _step_of(checker: Checker, part: str, run: CheckRun) -> Step:
    """Carry out the next step of a part; skip the rest of the part if the step fails.

    Otherwise a defect in one check would keep the run open for ever.  An error of the database that
    the step does not handle is raised, because its transaction cannot continue.
    """
    try:
        return checker.step(part, run.after_id)
    except DatabaseError:
        raise
    except Exception as error:
        log.exception("check_step_failed", extra={"check_run": run.pk, "part": part})
        reason = check_findings.cleaned(f"{type(error).__name__}: {first_line(error)}")
        return Step(skipped=1, unchecked=Unchecked(part, part, reason))


def _end(run: CheckRun, ended_at: datetime) -> None:
    """End a run, and carry over open findings of the previous run that it did not check."""
    run.ended_at = ended_at
    ended = CheckRun.objects.filter(kind=run.kind, ended_at__isnull=False)
    previous = ended.order_by("-ended_at", "-pk").first()
    earlier = [] if previous is None else _open_findings(previous)
    carried = check_findings.not_checked_again(earlier, run.checked_names)
    run.carried = [finding.as_json() for finding in carried]
    run.unresolved = sum(finding.count for finding in _open_findings(run))


def _open_findings(run: CheckRun) -> list[Finding]:
    """Return the findings that are open after a run; with `applied`, its own were corrected."""
    own = [] if run.options.get("applied") else _findings(run.findings)
    return check_findings.still_open(own, _findings(run.carried))


def _findings(stored: Sequence[Mapping[str, Any]]) -> list[Finding]:
    return [Finding.from_json(each) for each in stored]
