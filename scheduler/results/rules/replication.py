"""Decides which changes the transitioner makes to a workunit, and why [pure].

Source: PROTOCOL 9.3 (BOINC's order of decisions).  Unlike in BOINC, a separate daemon handles
timeouts.  As in BOINC, the validator chooses the canonical result.  Cancelling, holding, expiry,
giving up unsendable results and revalidation are requested by columns, which these rules read.

**Limits**: `max_error_results` limits failed results, `max_timeouts` results without a reply, and
`max_success_results` compared successes without sufficient agreement.  The workunit fails when
one of these limits is exceeded.  `max_total_results` limits how many results are created.  The
workunit fails when the results still allowed cannot lead to an answer.  docs/replication.md
explains the limits to scientists.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from scheduler.lifecycle import (
    AssimilateState,
    Axis,
    Because,
    Outcome,
    ReleaseState,
    ResultState,
    ServerState,
    ValidateState,
)
from scheduler.results.rules.settled import judge_settled
from scheduler.results.rules.verdicts import CREATION, Counts, ResultMove, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from scheduler.results.facts import ResultFacts, WorkunitFacts

__all__ = ["CREATION", "Counts", "ResultMove", "Verdict", "judge"]

#: The exit status of a result that the volunteer aborted: not an error of the workunit.
EXIT_ABORTED_BY_USER: Final = 203
#: An open workunit is checked again, even without a wake-up, after the longer of this time and this
#: many delay bounds.
RECHECK_INTERVAL: Final = timedelta(days=10)
RECHECK_DELAY_BOUNDS: Final = 1.5
#: Interval of checks for apps with `fail_when_all_tried`: a change of the active hosts does not
#: wake the transitioner.
HOST_CHANGE_INTERVAL: Final = timedelta(hours=1)

# Plain integers: a pass makes these comparisons for every result of every workunit that it checks.
_INACTIVE, _UNSENT = int(ServerState.INACTIVE), int(ServerState.UNSENT)
_IN_PROGRESS = int(ServerState.IN_PROGRESS)
_SUCCESS, _NO_REPLY = int(Outcome.SUCCESS), int(Outcome.NO_REPLY)
_ERRORS = (int(Outcome.CLIENT_ERROR), int(Outcome.VALIDATE_ERROR))
_NEVER_SENT = (int(Outcome.DIDNT_NEED), int(Outcome.COULDNT_SEND))
_V_INIT, _V_INCONCLUSIVE = int(ValidateState.INIT), int(ValidateState.INCONCLUSIVE)
_USABLE = (_V_INIT, int(ValidateState.VALID), _V_INCONCLUSIVE)
_JUDGED = (int(ValidateState.VALID), int(ValidateState.INVALID), _V_INCONCLUSIVE)


def judge(workunit: WorkunitFacts, *, now: datetime) -> Verdict:
    """Return the changes that a workunit needs now; never raises an exception."""
    counts = count(workunit.results)
    if may_be_reopened(workunit):
        return _reopen(workunit, counts, now=now)
    has_answer = workunit.canonical_result_id is not None
    failures = () if has_answer or workunit.error_mask else failures_of(workunit, counts, now=now)
    if has_answer or workunit.error_mask or failures:
        return judge_settled(workunit, counts, failures, now=now)
    release = (
        workunit.release_state == ReleaseState.INACTIVE and workunit.pending_dependency_count == 0
    )
    may_run = release or workunit.release_state == ReleaseState.RELEASED
    if is_complete_group(workunit, may_run=may_run):
        return Verdict(workunit, counts, release=release, complete=True, look_again_at=now)
    is_early = workunit.start_after is not None and workunit.start_after > now
    is_past = _has_passed(workunit.end_before, now)
    return Verdict(
        workunit,
        counts,
        replicas=replicas_wanted(workunit, counts) if may_run and not (is_early or is_past) else 0,
        validate=not workunit.need_validate and _is_worth_validating(workunit, counts, now=now),
        release=release,
        reset_class=_only_errors_came(workunit, counts),
        result_moves=tuple(_holds_and_releases(workunit.results, may_run=may_run)),
        look_again_at=_next_look_while_open(workunit, counts, now=now),
    )


def is_complete_group(workunit: WorkunitFacts, *, may_run: bool) -> bool:
    """Return whether the workunit is a group that is complete now, because it may run."""
    return workunit.is_group and may_run


def may_be_reopened(workunit: WorkunitFacts) -> bool:
    """Return whether a revalidation is requested, and the workunit is not failed or assimilated."""
    return (
        workunit.revalidate_requested_at is not None
        and not workunit.error_mask
        and workunit.assimilate_state != AssimilateState.DONE
    )


def _reopen(workunit: WorkunitFacts, counts: Counts, *, now: datetime) -> Verdict:
    """Return the verdict that withdraws the canonical result and all validations.

    The workunit is checked again at once.
    """
    return Verdict(
        workunit,
        counts,
        reopen=True,
        result_moves=tuple(
            ResultMove(
                r.id, Axis.VALIDATION, r.validate_state, ValidateState.INIT, Because.REVALIDATION
            )
            for r in workunit.results
            if r.outcome == _SUCCESS and r.validate_state in _JUDGED
        ),
        look_again_at=now,
    )


def count(results: Iterable[ResultFacts]) -> Counts:
    """Count the results of a workunit by state (PROTOCOL 9.3)."""
    total = unsent = in_progress = ever_sent = 0
    successes = fresh = inconclusive = errors = timeouts = given_up = unsendable = 0
    for result in results:
        total += 1
        if result.server_state in (_INACTIVE, _UNSENT):
            unsent += 1
            continue
        # The law allows these outcomes only for unsent results; every other result was sent.
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
    """Return how many usable results the workunit needs.

    If all successes are inconclusive, the workunit needs at least one more success.
    """
    if counts.successes and counts.successes == counts.inconclusive:
        return max(workunit.target_nresults, counts.inconclusive + 1)
    return workunit.target_nresults


def replicas_wanted(workunit: WorkunitFacts, counts: Counts) -> int:
    """Return how many results to create now, within `max_total_results`.

    The number is 0 for a broadcast workunit: the scheduler creates a result for each host.
    """
    if workunit.broadcast:
        return 0
    needed = effective_target(workunit, counts) - counts.alive
    return max(0, min(needed, workunit.max_total_results - counts.total))


def failures_of(workunit: WorkunitFacts, counts: Counts, *, now: datetime) -> tuple[Because, ...]:
    """Return the reasons why a workunit without an answer fails now, or () if it stays open.

    The ledger entry contains the first reason, and the error mask contains all reasons.
    """
    checks = (
        (Because.CANCELLED, workunit.cancel_requested_at is not None),
        (Because.DEPENDENCY_FAILED, dependency_failed(workunit)),
        (Because.EXPIRED, _has_expired(workunit, counts, now=now)),
        (
            Because.UNSENDABLE,
            _is_unsendable(workunit, counts) or has_no_other_host(workunit, counts, now=now),
        ),
        (Because.TOO_MANY_ERRORS, has_too_many_errors(workunit, counts)),
        (Because.TOO_MANY_TIMEOUTS, has_too_many_timeouts(workunit, counts)),
        (Because.TOO_MANY_SUCCESSES, has_too_many_successes(workunit, counts)),
        (Because.TOO_MANY_RESULTS, _is_out_of_results(workunit, counts)),
    )
    reasons = tuple(because for because, applies in checks if applies)
    return (*reasons, Because.NO_AGREEMENT) if _has_no_agreement(reasons, counts) else reasons


def dependency_failed(workunit: WorkunitFacts) -> bool:
    """Return whether a workunit, or the batch, on which the workunit depends has failed."""
    return workunit.dependency_failed_at is not None


def has_too_many_errors(workunit: WorkunitFacts, counts: Counts) -> bool:
    """Return whether more than `max_error_results` results failed.

    Returns False for a broadcast workunit.
    """
    return counts.errors > workunit.max_error_results and not workunit.broadcast


def has_too_many_timeouts(workunit: WorkunitFacts, counts: Counts) -> bool:
    """Return whether more than `max_timeouts` results timed out.

    Returns False for a broadcast workunit, or if `max_timeouts` is None.
    """
    limit = workunit.max_timeouts
    return limit is not None and counts.timeouts > limit and not workunit.broadcast


def has_too_many_successes(workunit: WorkunitFacts, counts: Counts) -> bool:
    """Return whether more than `max_success_results` successes were compared and too few agree.

    Returns False for a broadcast workunit, or while a success was not compared yet.
    """
    limit = workunit.max_success_results
    return counts.fresh == 0 and counts.inconclusive > limit and not workunit.broadcast


def _is_out_of_results(workunit: WorkunitFacts, counts: Counts) -> bool:
    """Return whether the results still allowed cannot lead to an answer."""
    # BOINC fails the workunit even if results in progress may complete the quorum; this rule waits
    # for them.
    alive = counts.alive + replicas_wanted(workunit, counts)
    needs_more = effective_target(workunit, counts) > alive
    can_succeed = alive >= workunit.min_quorum and alive > counts.inconclusive
    return needs_more and not can_succeed and not workunit.broadcast


def _has_no_agreement(reasons: tuple[Because, ...], counts: Counts) -> bool:
    """Return whether the workunit ended after a comparison in which too few successes agreed."""
    ends = {Because.TOO_MANY_SUCCESSES, Because.TOO_MANY_RESULTS, Because.EXPIRED}
    return counts.inconclusive > 0 and counts.fresh == 0 and not ends.isdisjoint(reasons)


def _has_expired(workunit: WorkunitFacts, counts: Counts, *, now: datetime) -> bool:
    """Return whether `end_before` has passed, or `start_before` has and no answer is possible.

    After `start_before` no result is sent, not even to replace failed results.  Successes that were
    received before `end_before` are still validated, and may become the answer.  A broadcast
    workunit is validated at its end; it expires only if no result can be the answer.
    """
    cannot_start = _has_passed(workunit.start_before, now)
    if workunit.broadcast:
        is_lost = cannot_start and not counts.ever_sent
    else:
        can_succeed = counts.in_progress > 0 or _is_worth_validating(workunit, counts, now=now)
        is_lost = cannot_start and not can_succeed
    if is_lost or not _has_passed(workunit.end_before, now):
        return is_lost
    is_in_time = workunit.broadcast or came_in_time(workunit)
    return not (is_in_time and _is_worth_validating(workunit, counts, now=now))


def came_in_time(workunit: WorkunitFacts) -> bool:
    """Return whether `min_quorum` successes were received before `end_before`.

    The time is that of the server, so that a slow validator does not expire finished work.
    """
    end = workunit.end_before
    in_time = sum(
        result.outcome == _SUCCESS
        and result.validate_state in _USABLE
        and result.received_at is not None
        and (end is None or result.received_at < end)
        for result in workunit.results
    )
    return in_time >= workunit.min_quorum


def _is_unsendable(workunit: WorkunitFacts, counts: Counts) -> bool:
    """Return whether a result could not be sent, or is unsent and the workunit is unsendable."""
    return counts.unsendable > 0 or (
        workunit.unsendable_at is not None
        and any(result.server_state == _UNSENT for result in workunit.results)
    )


def has_no_other_host(workunit: WorkunitFacts, counts: Counts, *, now: datetime) -> bool:
    """Return whether the workunit fails because every active account (or host) had a result.

    Returns False while a result is in progress or waits for validation.
    """
    return (
        workunit.all_tried is True
        and counts.ever_sent > 0
        and counts.in_progress == 0
        and workunit.release_state == ReleaseState.RELEASED
        and not workunit.broadcast
        and not workunit.need_validate
        and not _is_worth_validating(workunit, counts, now=now)
    )


def _is_worth_validating(workunit: WorkunitFacts, counts: Counts, *, now: datetime) -> bool:
    """Return whether there are at least `min_quorum` successes, and one was never compared.

    The successes of a broadcast workunit are validated only after its end.
    """
    is_open_broadcast = workunit.broadcast and not _has_passed(workunit.end_before, now)
    return counts.fresh > 0 and counts.successes >= workunit.min_quorum and not is_open_broadcast


def _only_errors_came(workunit: WorkunitFacts, counts: Counts) -> bool:
    # The host class, or the app version, may be the cause of the errors: allow another one.
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


def _next_look_while_open(workunit: WorkunitFacts, counts: Counts, *, now: datetime) -> datetime:
    """Return the next time at which the verdict may change, at most the time of the recheck.

    Source: PROTOCOL 9.3, step 9.  The recheck limits the delay after a lost wake-up.
    """
    bound = workunit.delay_bound
    times = [
        now + max(RECHECK_INTERVAL, bound * RECHECK_DELAY_BOUNDS if bound else RECHECK_INTERVAL)
    ]
    clocks = (workunit.start_after, workunit.start_before, workunit.end_before)
    times += [at for at in clocks if at is not None]
    if workunit.all_tried is not None and counts.ever_sent and not counts.in_progress:
        times.append(now + HOST_CHANGE_INTERVAL)
    return min(at for at in times if at > now)


def _has_passed(at: datetime | None, now: datetime) -> bool:
    return at is not None and at <= now
