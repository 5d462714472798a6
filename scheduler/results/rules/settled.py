"""Decides the next changes of a workunit that has an answer or has failed [pure].

Source for late results and files: PROTOCOL 9.3, step 8.  A result has two deadlines: it times out
at its report deadline, but until its credit deadline it is still accepted, compared with the
canonical result, and gets credit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.lifecycle import (
    AssimilateState,
    Axis,
    Because,
    FileDeleteState,
    Outcome,
    ResultState,
    ServerState,
    ValidateState,
)
from scheduler.results.rules.verdicts import Counts, ResultMove, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from scheduler.results.facts import ResultFacts, WorkunitFacts

# Plain integers: a pass makes these comparisons for every result of every workunit that it checks.
_UNSENT, _IN_PROGRESS = int(ServerState.UNSENT), int(ServerState.IN_PROGRESS)
_OVER, _SUCCESS = int(ServerState.OVER), int(Outcome.SUCCESS)
_NO_REPLY, _F_INIT = int(Outcome.NO_REPLY), int(FileDeleteState.INIT)
_UNJUDGED = (int(ValidateState.INIT), int(ValidateState.INCONCLUSIVE))


def judge_settled(
    workunit: WorkunitFacts,
    counts: Counts,
    failures: tuple[Because, ...],
    *,
    now: datetime,
) -> Verdict:
    """Return the verdict on a workunit that has an answer or has failed, or that fails now.

    `failures` has the reasons why the workunit fails now; it is empty otherwise.
    """
    has_answer = workunit.canonical_result_id is not None
    because = Because.CANONICAL_FOUND if has_answer else Because.WORKUNIT_FAILED
    canonical_kept = has_answer and canonical_is_kept(workunit)
    moves = [
        drop_unsent(r, because, failures) for r in workunit.results if r.server_state < _IN_PROGRESS
    ]
    unjudged = [r for r in workunit.results if is_unjudged(r)] if counts.unjudged else []
    awaited = [r for r in unjudged if canonical_kept and not came_after_credit_deadline(r)]
    moves += [_leave_unjudged(r, because) for r in unjudged if r not in awaited]
    is_assimilated = workunit.assimilate_state == AssimilateState.DONE
    kept_until = files_kept_until(workunit) if is_assimilated else None
    may_delete = is_assimilated and (kept_until is None or kept_until <= now)
    if may_delete:
        moves += _files_to_delete(workunit, counts, awaited, now=now)
    return Verdict(
        workunit,
        counts,
        validate=bool(awaited) and not workunit.need_validate,
        failures=failures,
        assimilate=because if workunit.assimilate_state == AssimilateState.INIT else None,
        delete_inputs=may_delete
        and counts.in_progress == 0
        and workunit.file_delete_state == _F_INIT
        and not inputs_are_kept(workunit, has_answer=has_answer),
        result_moves=tuple(moves),
        look_again_at=_next_look(workunit, kept_until, now=now)
        if is_assimilated or workunit.is_group
        else None,
    )


def outputs_are_kept(workunit: WorkunitFacts) -> bool:
    """Return whether outputs are kept for the submitter until the batch is retired."""
    return workunit.outputs_kept


def inputs_are_kept(workunit: WorkunitFacts, *, has_answer: bool) -> bool:
    """Return whether inputs are kept so that a failed workunit can be submitted again."""
    return workunit.outputs_kept and not has_answer


def canonical_is_kept(workunit: WorkunitFacts) -> bool:
    """Return whether the outputs of the canonical result still exist."""
    return any(
        r.id == workunit.canonical_result_id and r.file_delete_state == _F_INIT
        for r in workunit.results
    )


def came_after_credit_deadline(result: ResultFacts) -> bool:
    """Return whether a success arrived too late to be compared and to get credit.

    This rule applies only to a workunit with an answer.  Until a workunit has an answer, every
    success is validated.
    """
    return (
        result.received_at is not None
        and result.credit_deadline is not None
        and result.received_at > result.credit_deadline
    )


def files_kept_until(workunit: WorkunitFacts) -> datetime | None:
    """Return the time until which all files are kept, or None.

    This is `App.delete_delay` after the last report (PROTOCOL 9.3, step 8).  None means that the
    app has no delay, or that no report arrived.
    """
    came = [r.received_at for r in workunit.results if r.received_at is not None]
    return max(came) + workunit.delete_delay if workunit.delete_delay and came else None


def is_unjudged(result: ResultFacts) -> bool:
    """Return whether a result is a success that is neither VALID nor INVALID yet."""
    return (
        result.server_state == _OVER
        and result.outcome == _SUCCESS
        and result.validate_state in _UNJUDGED
    )


def drop_unsent(
    result: ResultFacts, because: Because, failures: tuple[Because, ...] = ()
) -> ResultMove:
    """Return the move that ends a result that was never sent.

    It ends as COULDNT_SEND if no host qualified, else as DIDNT_NEED.
    """
    source = ResultState(10 * result.server_state)
    if Because.UNSENDABLE in failures and result.server_state == _UNSENT:
        return ResultMove(
            result.id, Axis.RESULT, source, ResultState.COULDNT_SEND, Because.UNSENDABLE
        )
    return ResultMove(result.id, Axis.RESULT, source, ResultState.DIDNT_NEED, because)


def _leave_unjudged(result: ResultFacts, because: Because) -> ResultMove:
    source = result.validate_state
    if because is Because.WORKUNIT_FAILED:
        return ResultMove(result.id, Axis.VALIDATION, source, ValidateState.NO_CHECK, because)
    return ResultMove(result.id, Axis.VALIDATION, source, ValidateState.TOO_LATE, Because.TOO_LATE)


def _files_to_delete(
    workunit: WorkunitFacts, counts: Counts, awaited: list[ResultFacts], *, now: datetime
) -> Iterable[ResultMove]:
    """Yield the moves that delete the outputs of an assimilated workunit that are not needed.

    The outputs of the canonical result are kept for comparisons until every result is over, every
    success is validated, and the credit deadlines of all results without a reply have passed.  With
    `keep_outputs`, they are kept until the batch is retired.
    """
    late_ones_may_come = _next_credit_deadline(workunit.results, now=now) is not None
    is_compared_with = counts.in_progress > 0 or bool(awaited) or late_ones_may_come
    keep_canonical = is_compared_with or outputs_are_kept(workunit)
    for result in workunit.results:
        if result.file_delete_state != _F_INIT or result.server_state == _IN_PROGRESS:
            continue
        is_canonical = result.id == workunit.canonical_result_id
        is_awaited = result in awaited or _may_still_come(result, now)
        if not (is_awaited or (is_canonical and keep_canonical)):
            yield ResultMove(
                result.id,
                Axis.RESULT_FILES,
                FileDeleteState.INIT,
                FileDeleteState.READY,
                Because.NO_LONGER_NEEDED,
            )


def _next_look(
    workunit: WorkunitFacts, kept_until: datetime | None, *, now: datetime
) -> datetime | None:
    if workunit.is_group and workunit.assimilate_state == AssimilateState.INIT:
        # It ends now, without an assimilator, which would wake the transitioner.
        return now
    times = (_next_credit_deadline(workunit.results, now=now), kept_until)
    return min((at for at in times if at is not None and at > now), default=None)


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
