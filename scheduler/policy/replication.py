"""What a workunit needs next, and why: the transitioner's mind [pure].

Sources: PROTOCOL 9.3 (BOINC's order of decisions), corrected by the law: time-outs belong to the
timeout checker, the canonical result to the validator; cancelling, holding and expiry are requests
written in columns, on which this judgement acts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.lifecycle import (
    ERROR_BITS,
    NOTHING,
    Actor,
    AssimilateState,
    Axis,
    Because,
    FileDeleteState,
    Move,
    Outcome,
    ReleaseState,
    ResultState,
    ServerState,
    ValidateState,
    WorkunitState,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from scheduler.facts.work import ResultFacts, WorkunitFacts

#: The exit status of a result that the volunteer aborted: no fault of the workunit.
EXIT_ABORTED_BY_USER = 203

# Plain integers: a pass makes these comparisons for every result of every workunit it looks at.
_INACTIVE, _UNSENT = int(ServerState.INACTIVE), int(ServerState.UNSENT)
_IN_PROGRESS, _OVER = int(ServerState.IN_PROGRESS), int(ServerState.OVER)
_SUCCESS, _NO_REPLY = int(Outcome.SUCCESS), int(Outcome.NO_REPLY)
_ERRORS = (int(Outcome.CLIENT_ERROR), int(Outcome.VALIDATE_ERROR))
_NEVER_SENT = (int(Outcome.DIDNT_NEED), int(Outcome.COULDNT_SEND))
_V_INIT, _V_INCONCLUSIVE = int(ValidateState.INIT), int(ValidateState.INCONCLUSIVE)
_USABLE = (_V_INIT, int(ValidateState.VALID), _V_INCONCLUSIVE)
_F_INIT = int(FileDeleteState.INIT)


@dataclass(frozen=True, slots=True)
class Counts:
    """How many of a workunit's results are where.

    `successes` are those that may still agree or already do: one found invalid, or that nobody
    will check, is none.
    `fresh` successes were never compared; `unjudged` are fresh or inconclusive.
    """

    total: int = 0
    unsent: int = 0
    in_progress: int = 0
    successes: int = 0
    fresh: int = 0
    inconclusive: int = 0
    errors: int = 0
    timeouts: int = 0
    given_up: int = 0
    unsendable: int = 0
    ever_sent: int = 0

    @property
    def unjudged(self) -> int:
        """Successes of which nobody has said VALID or INVALID."""
        return self.fresh + self.inconclusive

    @property
    def alive(self) -> int:
        """Results that may still bring, or have brought, something usable."""
        return self.unsent + self.in_progress + self.successes


@dataclass(frozen=True, slots=True)
class ResultMove:
    """One move of one result, as the law names it; always by the transitioner."""

    result_id: int
    axis: Axis
    source: int
    target: int
    because: Because


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done to a workunit now; nothing of it is done yet.

    `replicas` results are to be made; `validate` sets ``need_validate``; `failures` become the
    error mask; `look_again_at` is None when only an event, no clock, can change this judgement.
    """

    workunit: WorkunitFacts
    counts: Counts
    replicas: int = 0
    validate: bool = False
    release: bool = False
    reset_class: bool = False
    failures: tuple[Because, ...] = ()
    assimilate: Because | None = None
    delete_inputs: bool = False
    result_moves: tuple[ResultMove, ...] = ()
    look_again_at: datetime | None = None

    @property
    def error_mask(self) -> int:
        """The workunit's error mask after this verdict."""
        mask = self.workunit.error_mask
        for because in self.failures:
            mask |= int(ERROR_BITS[because])
        return mask

    @property
    def workunit_moves(self) -> tuple[Move, ...]:
        """The workunit's own moves, as the law names them."""
        moves = []
        if self.release:
            moves.append(_RELEASED)
        if self.failures:
            moves.append(_FAILED[self.failures[0]])
        if self.assimilate is not None:
            moves.append(_ASSIMILATE[self.assimilate])
        if self.delete_inputs:
            moves.append(_DELETE_INPUTS)
        return tuple(moves)

    @property
    def changes_anything(self) -> bool:
        """Whether any state changes; looking again at another time is no change."""
        return bool(
            self.replicas
            or self.validate
            or self.reset_class
            or self.result_moves
            or self.workunit_moves
        )


def judge(workunit: WorkunitFacts, *, now: datetime) -> Verdict:
    """What this workunit needs next; never raises, and judging twice changes nothing more."""
    counts = count(workunit.results)
    has_answer = workunit.canonical_result_id is not None
    failures = () if has_answer or workunit.error_mask else failures_of(workunit, counts, now=now)
    has_failed = bool(workunit.error_mask or failures)
    release = (
        not (has_answer or has_failed)
        and workunit.release_state == ReleaseState.INACTIVE
        and workunit.pending_dependency_count == 0
    )
    if has_answer or has_failed:
        because = Because.CANONICAL_FOUND if has_answer else Because.WORKUNIT_FAILED
        return _judge_settled(workunit, counts, failures, because, now=now)
    may_run = release or workunit.release_state == ReleaseState.RELEASED
    is_early = workunit.start_after is not None and workunit.start_after > now
    return Verdict(
        workunit,
        counts,
        replicas=replicas_wanted(workunit, counts) if may_run and not is_early else 0,
        validate=not workunit.need_validate
        and counts.fresh > 0
        and counts.successes >= workunit.min_quorum,
        release=release,
        reset_class=_only_errors_came(workunit, counts),
        result_moves=tuple(_holds_and_releases(workunit.results, may_run=may_run)),
        look_again_at=_next_look_while_open(workunit, counts, now=now),
    )


def count(results: Iterable[ResultFacts]) -> Counts:
    """Count results by what they mean for the workunit (PROTOCOL 9.3)."""
    total = unsent = in_progress = ever_sent = 0
    successes = fresh = inconclusive = errors = timeouts = given_up = unsendable = 0
    for result in results:
        total += 1
        if result.server_state in (_INACTIVE, _UNSENT):
            unsent += 1
            continue
        # The law lets only the unsent end so: whatever else is over was sent once.
        ever_sent += result.outcome not in _NEVER_SENT
        if result.server_state == _IN_PROGRESS:
            in_progress += 1
        elif result.outcome == _SUCCESS:
            successes += result.validate_state in _USABLE
            fresh += result.validate_state == _V_INIT
            inconclusive += result.validate_state == _V_INCONCLUSIVE
        elif result.outcome in _ERRORS:
            aborted = result.exit_status == EXIT_ABORTED_BY_USER
            is_abort = aborted and result.outcome == Outcome.CLIENT_ERROR
            errors += not is_abort
            given_up += is_abort
        elif result.outcome == _NO_REPLY:
            timeouts += 1
            given_up += 1
        elif result.outcome == Outcome.CLIENT_DETACHED:
            given_up += 1
        else:
            unsendable += result.outcome == Outcome.COULDNT_SEND
    return Counts(
        total=total,
        unsent=unsent,
        in_progress=in_progress,
        successes=successes,
        fresh=fresh,
        inconclusive=inconclusive,
        errors=errors,
        timeouts=timeouts,
        given_up=given_up,
        unsendable=unsendable,
        ever_sent=ever_sent,
    )


def effective_target(workunit: WorkunitFacts, counts: Counts) -> int:
    """How many usable results are wanted: one more than disagree, if all of them disagree."""
    if counts.successes and counts.successes == counts.inconclusive:
        return max(workunit.target_nresults, counts.inconclusive + 1)
    return workunit.target_nresults


def replicas_wanted(workunit: WorkunitFacts, counts: Counts) -> int:
    """How many results to make now, within `max_total_results`."""
    needed = effective_target(workunit, counts) - counts.alive
    return max(0, min(needed, workunit.max_total_results - counts.total))


def failures_of(workunit: WorkunitFacts, counts: Counts, *, now: datetime) -> tuple[Because, ...]:
    """Why a workunit without an answer must be given up; empty if it need not.

    Limits are inclusive: `max_error_results` errors are borne, one more is not.
    """
    never_started = workunit.start_before is not None and not counts.ever_sent
    found = (
        (Because.CANCELLED, workunit.cancel_requested_at is not None),
        (
            Because.EXPIRED,
            _has_passed(workunit.end_before, now)
            or (never_started and _has_passed(workunit.start_before, now)),
        ),
        (Because.UNSENDABLE, counts.unsendable > 0),
        (Because.TOO_MANY_ERRORS, counts.errors > workunit.max_error_results),
        (
            Because.TOO_MANY_TIMEOUTS,
            workunit.max_timeouts is not None and counts.timeouts > workunit.max_timeouts,
        ),
        (
            Because.TOO_MANY_SUCCESSES,
            counts.fresh == 0 and counts.inconclusive > workunit.max_success_results,
        ),
        (Because.TOO_MANY_RESULTS, _is_out_of_results(workunit, counts)),
    )
    return tuple(because for because, applies in found if applies)


def _is_out_of_results(workunit: WorkunitFacts, counts: Counts) -> bool:
    # BOINC fails here even if results under way could still make the quorum; we wait for those.
    needs_more = effective_target(workunit, counts) > counts.alive
    has_hope = counts.alive >= workunit.min_quorum and counts.alive > counts.inconclusive
    return needs_more and counts.total >= workunit.max_total_results and not has_hope


def _only_errors_came(workunit: WorkunitFacts, counts: Counts) -> bool:
    # The class of hosts, or the app version, may be what fails: let another try.
    is_bound = workunit.hr_class != 0 or workunit.app_version_id is not None
    return (
        is_bound
        and counts.errors > 0
        and not (counts.successes or counts.in_progress or counts.given_up)
    )


def _holds_and_releases(results: Iterable[ResultFacts], *, may_run: bool) -> Iterable[ResultMove]:
    for result in results:
        if result.server_state == _UNSENT and not may_run:
            yield ResultMove(
                result.id, Axis.RESULT, ResultState.UNSENT, ResultState.INACTIVE, Because.HELD
            )
        elif result.server_state == _INACTIVE and may_run:
            yield ResultMove(
                result.id, Axis.RESULT, ResultState.INACTIVE, ResultState.UNSENT, Because.RELEASED
            )


def _next_look_while_open(
    workunit: WorkunitFacts, counts: Counts, *, now: datetime
) -> datetime | None:
    times = [workunit.start_after, workunit.end_before]
    if not counts.ever_sent:
        times.append(workunit.start_before)
    return min((at for at in times if at is not None and at > now), default=None)


def _judge_settled(
    workunit: WorkunitFacts,
    counts: Counts,
    failures: tuple[Because, ...],
    because: Because,
    *,
    now: datetime,
) -> Verdict:
    """The end of a workunit that has its answer (CANONICAL_FOUND) or its reason why not."""
    has_answer = because is Because.CANONICAL_FOUND
    canonical_kept = has_answer and _canonical_is_kept(workunit)
    moves = [_drop_unsent(r, because) for r in workunit.results if r.server_state < _IN_PROGRESS]
    if not canonical_kept:
        moves += [_leave_unjudged(r, because) for r in workunit.results if _is_unjudged(r)]
    awaits_judgement = canonical_kept and counts.unjudged > 0
    is_assimilated = workunit.assimilate_state == AssimilateState.DONE
    if is_assimilated:
        moves += _files_to_delete(workunit, counts, awaits_judgement=awaits_judgement, now=now)
    return Verdict(
        workunit,
        counts,
        validate=awaits_judgement and not workunit.need_validate,
        failures=failures,
        assimilate=because if workunit.assimilate_state == AssimilateState.INIT else None,
        delete_inputs=is_assimilated
        and counts.in_progress == 0
        and workunit.file_delete_state == _F_INIT,
        result_moves=tuple(moves),
        look_again_at=_next_credit_deadline(workunit.results, now=now) if is_assimilated else None,
    )


def _canonical_is_kept(workunit: WorkunitFacts) -> bool:
    """Whether the canonical outputs are still there to be compared with."""
    return any(
        r.id == workunit.canonical_result_id and r.file_delete_state == _F_INIT
        for r in workunit.results
    )


def _is_unjudged(result: ResultFacts) -> bool:
    return (
        result.server_state == _OVER
        and result.outcome == _SUCCESS
        and result.validate_state in (_V_INIT, _V_INCONCLUSIVE)
    )


def _drop_unsent(result: ResultFacts, because: Because) -> ResultMove:
    source = ResultState(10 * result.server_state)
    return ResultMove(result.id, Axis.RESULT, source, ResultState.DIDNT_NEED, because)


def _leave_unjudged(result: ResultFacts, because: Because) -> ResultMove:
    source = result.validate_state
    if because is Because.WORKUNIT_FAILED:
        return ResultMove(result.id, Axis.VALIDATION, source, ValidateState.NO_CHECK, because)
    return ResultMove(result.id, Axis.VALIDATION, source, ValidateState.TOO_LATE, Because.TOO_LATE)


def _files_to_delete(
    workunit: WorkunitFacts, counts: Counts, *, awaits_judgement: bool, now: datetime
) -> Iterable[ResultMove]:
    """Outputs that nobody needs any more, once the workunit is assimilated.

    The canonical outputs stay until every result is over, every success is judged and no result
    that did not reply may still come in time for credit: a late one is compared with them.
    """
    late_ones_may_come = _next_credit_deadline(workunit.results, now=now) is not None
    keep_canonical = counts.in_progress > 0 or awaits_judgement or late_ones_may_come
    for result in workunit.results:
        if result.file_delete_state != _F_INIT or result.server_state == _IN_PROGRESS:
            continue
        is_canonical = result.id == workunit.canonical_result_id
        awaited = (awaits_judgement and _is_unjudged(result)) or _may_still_come(result, now)
        if not (awaited or (is_canonical and keep_canonical)):
            yield ResultMove(
                result.id,
                Axis.RESULT_FILES,
                FileDeleteState.INIT,
                FileDeleteState.READY,
                Because.NO_LONGER_NEEDED,
            )


def _may_still_come(result: ResultFacts, now: datetime) -> bool:
    return (
        result.server_state == _OVER
        and result.outcome == _NO_REPLY
        and result.credit_deadline is not None
        and result.credit_deadline > now
    )


def _next_credit_deadline(results: Iterable[ResultFacts], *, now: datetime) -> datetime | None:
    deadlines = (r.credit_deadline for r in results if _may_still_come(r, now))
    return min((at for at in deadlines if at is not None), default=None)


def _has_passed(at: datetime | None, now: datetime) -> bool:
    return at is not None and at <= now


def _move(axis: Axis, source: int, target: int, because: Because) -> Move:
    return Move(axis, source, target, because, Actor.TRANSITIONER)


#: The births of results, and the workunit's own moves, looked up once.
BIRTH = _move(Axis.RESULT, NOTHING, ResultState.UNSENT, Because.REPLICA_NEEDED)
_RELEASED = _move(
    Axis.RELEASE, ReleaseState.INACTIVE, ReleaseState.RELEASED, Because.DEPENDENCIES_MET
)
_FAILED = {
    because: _move(Axis.WORKUNIT, WorkunitState.OPEN, WorkunitState.FAILED, because)
    for because in ERROR_BITS
}
_ASSIMILATE = {
    because: _move(Axis.ASSIMILATION, AssimilateState.INIT, AssimilateState.READY, because)
    for because in (Because.CANONICAL_FOUND, Because.WORKUNIT_FAILED)
}
_DELETE_INPUTS = _move(
    Axis.WORKUNIT_FILES, FileDeleteState.INIT, FileDeleteState.READY, Because.NO_LONGER_NEEDED
)
