"""Runs the validators of apps in turn, in worker processes.

In the turn of an app, its workunits are claimed and compared, and the verdicts are written.  While
a validator runs, no transaction is open, and the workunits are protected only by a lease with a
token.  A turn is short, and a failure delays the other apps by at most one time limit:

- a workunit whose validator raises, crashes or hangs is retried with growing back-off, and finally
  parked (`daemons.poison`); transient failures are retried longer;
- after a hang the app's turn ends, and an app that hangs repeatedly is suspended for a while.

Under the workunits' locks, only results that were compared and have not changed are judged.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any

from django.db import transaction

from daemons import poison
from daemons.science import worker
from daemons.science.comparison import Answer
from daemons.science.interfaces import TransientScienceError
from daemons.tally import Shard, Tally
from daemons.validator.asking import answer_of, comparison_of, stderrs_of
from daemons.validator.comparing import UNJUDGED, Judged, PendingWorkunit, Success, judge
from daemons.validator.settling import PACKAGE, settle, successes_of
from scheduler import sql

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

log = logging.getLogger(__name__)

#: The maximum number of workunits claimed for a turn, and the time after which a turn compares no
#: further workunit; seconds.
TURN_ROWS, TURN_SECONDS = 100, 2.0
#: The duration of a lease, in addition to the turn and one time limit.
LEASE_MARGIN = timedelta(minutes=1)
#: The longest back-off after failures of a validator.
MAX_WAIT = timedelta(hours=6)
#: The retry delay of workunits whose validator cannot be loaded or refuses its options.
UNUSABLE_WAIT = timedelta(minutes=1)
#: After two hangs in a row, an app is suspended for twice the duration of the last hang; after more
#: hangs, for four times that duration.
REST_FACTOR, MAX_REST_FACTOR = 2, 4

#: The number of consecutive hangs in this process, and the end of the suspension, by app id.
_hangs: dict[int, int] = {}
_suspended_until: dict[int, datetime] = {}


@dataclass(frozen=True, slots=True)
class PendingApp:
    """An app with workunits to validate in a worker; `seconds` is the time limit for one workunit.

    `reason` is the error if the validator cannot be used.
    """

    id: int
    name: str
    validator: str
    validator_options: dict[str, Any]
    seconds: float
    reason: str | None = None

    @property
    def limit(self) -> timedelta:
        return timedelta(seconds=self.seconds)


@dataclass(slots=True)
class _Turn:
    """The claimed workunits of an app, and the outcome for each workunit."""

    app: PendingApp
    tokens: dict[int, int]
    workunits: list[PendingWorkunit] = field(default_factory=list)
    successes: Mapping[int, Sequence[Success]] = field(default_factory=dict)
    stderrs: Mapping[int, str] = field(default_factory=dict)
    answers: dict[int, Answer] = field(default_factory=dict)
    failures: worker.Failures = field(default_factory=worker.Failures)
    unusable: str = ""
    hung_for: float = 0.0

    @property
    def untouched(self) -> list[int]:
        """Return the ids of claimed workunits without an answer or a failure."""
        return sorted(self.tokens.keys() - self.answers.keys() - self.failures.errors.keys())


def take_turns(apps: Sequence[PendingApp], *, now: datetime, limit: int, shard: Shard) -> Tally:
    """Run one turn for each app that is not suspended; return the total tally."""
    began = monotonic()
    total = Tally()
    is_more = False
    for app in apps:
        if _suspended_until.get(app.id, now) > now:
            continue
        turn = _claim(
            app,
            now=now,
            until=now + timedelta(seconds=monotonic() - began + TURN_SECONDS) + app.limit,
            limit=min(limit, TURN_ROWS),
            shard=shard,
        )
        if turn.tokens:
            _compare_all(turn)
            total += _settle_turn(turn, now=now)
            _rest(turn, now=now + timedelta(seconds=monotonic() - began))
            is_more |= not turn.unusable and (
                bool(turn.untouched) or len(turn.tokens) >= min(limit, TURN_ROWS)
            )
    return Tally(seen=total.seen, counts=total.counts, more=is_more)


def _claim(app: PendingApp, *, now: datetime, until: datetime, limit: int, shard: Shard) -> _Turn:
    params = {
        "now": now,
        "app_id": app.id,
        "lease_until": until + LEASE_MARGIN,
        "limit": limit,
        "stage": int(poison.Stage.VALIDATE),
        **shard.params,
    }
    rows = sql.fetch("lease_unvalidated", params, PACKAGE)
    turn = _Turn(app, {row["id"]: row["lease_token"] for row in rows})
    if rows:
        turn.workunits = _lock_leased(turn, sorted(turn.tokens))
        turn.successes = successes_of(sorted(turn.tokens), now=now)
        successes = [success for group in turn.successes.values() for success in group]
        turn.stderrs = stderrs_of(app.validator, successes)
    return turn


def _lock_leased(turn: _Turn, ids: Sequence[int]) -> list[PendingWorkunit]:
    """Lock and return the workunits of `ids` that still have the turn's lease tokens."""
    params = {"ids": ids, "tokens": [turn.tokens[workunit_id] for workunit_id in ids]}
    return sql.fetch_into(PendingWorkunit, "lock_claimed", params, PACKAGE)


def _compare_all(turn: _Turn) -> None:
    """Compare the results of each workunit in order, until the turn is over."""
    began = monotonic()
    for workunit in turn.workunits:
        if turn.hung_for or turn.unusable or monotonic() - began > TURN_SECONDS:
            return
        _compare_one(turn, workunit)


def _compare_one(turn: _Turn, workunit: PendingWorkunit) -> None:
    began = monotonic()
    try:
        answer = _ask(turn, workunit)
    except (TransientScienceError, worker.ScienceFailed) as error:
        turn.failures.add(workunit.id, error)
        if isinstance(error, worker.ScienceTimedOut):
            turn.hung_for = monotonic() - began
        _log_failure(turn.app, workunit, error)
    else:
        if answer.unusable:
            turn.unusable = answer.unusable
        else:
            turn.answers[workunit.id] = answer


def _ask(turn: _Turn, workunit: PendingWorkunit) -> Answer:
    successes = turn.successes.get(workunit.id, ())
    success_ids = {success.id for success in successes}
    new = [success for success in successes if success.validate_state in UNJUDGED]
    if workunit.error_mask or not new or not success_ids.issuperset(_canonical(workunit)):
        return Answer()
    truth = [success for success in successes if success.id == workunit.canonical_result_id]
    return answer_of(workunit, [*truth, *new], turn.stderrs, turn.app.limit)


def _canonical(workunit: PendingWorkunit) -> tuple[int, ...]:
    return () if workunit.canonical_result_id is None else (workunit.canonical_result_id,)


def _log_failure(app: PendingApp, workunit: PendingWorkunit, error: Exception) -> None:
    about = {"workunit": workunit.name, "app": app.name, "reason": str(error)}
    if isinstance(error, TransientScienceError):
        log.warning("validation_put_off", extra=about)
    else:
        log.error("validation_failed", extra=about)


# Settling


def _settle_turn(turn: _Turn, *, now: datetime) -> Tally:
    judged: list[Judged] = []
    counts: dict[str, int] = {}
    if turn.answers:
        with transaction.atomic():
            workunits = _lock_leased(turn, sorted(turn.answers))
            # A separate statement: only a snapshot taken after the locks sees all changes.
            current = successes_of([workunit.id for workunit in workunits], now=now)
            judged = [
                _judge_again(turn, workunit, current.get(workunit.id, ())) for workunit in workunits
            ]
            if judged:
                counts = settle(judged, now=now, is_leased=True)
                poison.succeeded(poison.Stage.VALIDATE, [entry.workunit.id for entry in judged])
    parked = _put_off(turn, turn.answers.keys() - {entry.workunit.id for entry in judged}, now=now)
    counts["put off"] = len(turn.failures.errors) - parked
    counts["parked"] = parked
    counts["settled by another"] = len(turn.answers) - len(judged)
    return Tally(seen=len(turn.answers) + len(turn.failures.errors), counts=counts)


def _judge_again(turn: _Turn, workunit: PendingWorkunit, current: Sequence[Success]) -> Judged:
    """Judge compared results that are unchanged; set `unfinished` if some are new or changed."""
    before = next(claimed for claimed in turn.workunits if claimed.id == workunit.id)
    compared = {_content(success) for success in turn.successes.get(workunit.id, ())}
    same = [success for success in current if _content(success) in compared]
    changed = {success.id for success in current} - {success.id for success in same}
    if workunit.canonical_result_id != before.canonical_result_id or changed.intersection(
        _canonical(workunit)
    ):
        return Judged(workunit, unfinished=not workunit.error_mask)
    answer = turn.answers[workunit.id]
    successes = [_with_outlier(success, answer) for success in same]
    judged = judge(workunit, successes, comparison_of(answer))
    is_unfinished = not workunit.error_mask and any(
        success.id in changed and success.validate_state in UNJUDGED for success in current
    )
    return judged._replace(unfinished=is_unfinished)


def _content(success: Success) -> tuple[Any, ...]:
    """Return the facts that must not change between the comparison and the write."""
    files = zip(success.positions, success.names, success.digests, strict=True)
    return success.id, success.validate_state, tuple(sorted(files))


def _with_outlier(success: Success, answer: Answer) -> Success:
    return success._replace(runtime_outlier=True) if success.id in answer.outliers else success


def _put_off(turn: _Turn, lost: Collection[int], *, now: datetime) -> int:
    """Record failures and release leases; return the number of parked workunits.

    `lost` contains the ids of compared workunits whose verdicts were not written.
    """
    records = poison.record(
        poison.Stage.VALIDATE,
        turn.failures.errors,
        dict.fromkeys(turn.failures.errors, turn.app.id),
        now=now,
        transient=turn.failures.transient,
    )
    if turn.unusable:
        log.error(
            "validator_unusable",
            extra={"app": turn.app.name, "validator": turn.app.validator, "reason": turn.unusable},
        )
    again_at = {
        workunit_id: now + poison.wait_after(record.failures + record.transients, MAX_WAIT)
        for workunit_id, record in records.items()
    }
    untouched_until = now + UNUSABLE_WAIT if turn.unusable else None
    ids = sorted({*turn.failures.errors, *turn.untouched, *lost})
    if ids:
        params = {
            "ids": ids,
            "tokens": [turn.tokens[workunit_id] for workunit_id in ids],
            "again_ats": [again_at.get(workunit_id, untouched_until) for workunit_id in ids],
        }
        sql.execute("put_off_validation", params, PACKAGE)
    return sum(record.parked for record in records.values())


def _rest(turn: _Turn, *, now: datetime) -> None:
    """Suspend an app that hangs repeatedly, so that other apps get most of the daemon's time."""
    if not turn.hung_for:
        _hangs.pop(turn.app.id, None)
        return
    hangs = _hangs[turn.app.id] = 1 if turn.answers else _hangs.get(turn.app.id, 0) + 1
    if factor := min(REST_FACTOR * (hangs - 1), MAX_REST_FACTOR):
        _suspended_until[turn.app.id] = now + timedelta(seconds=factor * turn.hung_for)
