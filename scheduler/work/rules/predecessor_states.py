"""Derives the states of TDF, TDF2, Eve and Disbatch from a workunit's axes [pure].

These older systems have one state per task; here a workunit has a position on several axes.  The
derived states are only shown: no table stores them, and no rule reads them.  docs/history.md has
the tables.  The older systems run one attempt at a time; for a workunit with several results, each
function returns one state of the whole workunit.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Final

from scheduler.lifecycle import (
    AssimilateState,
    ErrorMask,
    Outcome,
    ReleaseState,
    ServerState,
    ValidateState,
)
from scheduler.results.rules.replication import EXIT_ABORTED_BY_USER
from scheduler.work.rules.statuses import AWAITED

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from scheduler.results.facts import ResultFacts, WorkunitFacts

#: Outcomes of attempts that failed, also of those that volunteers aborted.
ERRORS: Final = (Outcome.CLIENT_ERROR, Outcome.VALIDATE_ERROR)
_CANCELLED: Final = ErrorMask.CANCELLED | ErrorMask.DEPENDENCY_FAILED


class TdfState(StrEnum):
    """The states of TDF: four main states in order, and four intermediate states."""

    OPEN = "open"
    RUNNING = "running"
    EXECUTED = "executed"
    ARCHIVED = "archived"
    TIMED_OUT = "timed_out"
    EXPIRED = "expired"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Tdf2State(StrEnum):
    """The states of TDF2: of a task, and (open, running, closed) of the list that has it."""

    NEW = "new"
    OPEN = "open"
    RUNNING = "running"
    CLOSED = "closed"
    COMPLETED = "completed"
    COMPLETED_ARCHIVE = "completed_archive"
    FAILED = "failed"
    FAILED_ARCHIVE = "failed_archive"
    FAILED_TIME = "failed_time"
    FAILED_COUNT = "failed_count"


class EveState(StrEnum):
    """The states of the Eve task server."""

    INACTIVE = "inactive"
    AVAILABLE = "available"
    RUNNING = "running"
    PENDING_CANCELLATION = "pending_cancellation"
    CANCELLED = "cancelled"
    TERMINATED = "terminated"


#: The changes of state that Eve allows, and no others.
EVE_CHANGES: Final = {
    EveState.INACTIVE: (EveState.AVAILABLE, EveState.CANCELLED),
    EveState.AVAILABLE: (EveState.RUNNING, EveState.CANCELLED),
    EveState.RUNNING: (EveState.TERMINATED, EveState.PENDING_CANCELLATION, EveState.AVAILABLE),
    EveState.PENDING_CANCELLATION: (EveState.TERMINATED, EveState.CANCELLED),
    EveState.CANCELLED: (),
    EveState.TERMINATED: (),
}


class DisbatchStatus(IntEnum):
    """The status codes of Disbatch; a positive code means that the task is over."""

    ORPHANED = -6
    CANCELLED = -5
    HELD = -4
    ABORTED = -3
    QUEUED = -2
    CLAIMED = -1
    RUNNING = 0
    SUCCEEDED = 1
    FAILED = 2


def tdf_state(workunit: WorkunitFacts) -> TdfState:
    """Return the state in TDF.

    A workunit whose end has several reasons is expired before it is timed out or failed, because
    TDF judges only tasks that have not expired.
    """
    if workunit.assimilate_state == AssimilateState.DONE:
        return TdfState.ARCHIVED
    if workunit.canonical_result_id is not None:
        return TdfState.SUCCEEDED
    if workunit.error_mask:
        if workunit.error_mask & ErrorMask.EXPIRED:
            return TdfState.EXPIRED
        has_timed_out = workunit.error_mask & ErrorMask.TOO_MANY_TIMEOUTS
        return TdfState.TIMED_OUT if has_timed_out else TdfState.FAILED
    if _awaits_judgement(workunit):
        return TdfState.EXECUTED
    return TdfState.RUNNING if _is_running(workunit) else TdfState.OPEN


def tdf2_state(workunit: WorkunitFacts) -> Tdf2State:
    """Return the state in TDF2.

    For a workunit that failed too often and too late, the count has precedence over the time.
    """
    is_assimilated = workunit.assimilate_state == AssimilateState.DONE
    if workunit.canonical_result_id is not None:
        return Tdf2State.COMPLETED_ARCHIVE if is_assimilated else Tdf2State.COMPLETED
    if workunit.error_mask:
        if workunit.error_mask & ErrorMask.TOO_MANY_ERROR_RESULTS:
            return Tdf2State.FAILED_COUNT
        has_expired = workunit.error_mask & ErrorMask.EXPIRED
        return Tdf2State.FAILED_TIME if has_expired else Tdf2State.FAILED
    if _awaits_judgement(workunit):
        return Tdf2State.CLOSED
    if _is_running(workunit):
        return Tdf2State.RUNNING
    return Tdf2State.OPEN if _has_unsent(workunit) else Tdf2State.NEW


def tdf2_state_of(result: ResultFacts, workunit: WorkunitFacts) -> Tdf2State:
    """Return the state in TDF2 of one attempt: the file that TDF2 keeps for it.

    A failed attempt is `failed_archive` once a later result replaces it, or another one is the
    answer.  Otherwise the last one has the state of the workunit.
    """
    has_answer = workunit.canonical_result_id is not None
    has_failed = result.outcome in ERRORS or is_wrong(result)
    if result.attempt == workunit.results[-1].attempt and not (has_answer and has_failed):
        return tdf2_state(workunit)
    if result.server_state == ServerState.OVER:
        if result.outcome == Outcome.SUCCESS and result.validate_state in AWAITED:
            return tdf2_state(workunit) if has_answer else Tdf2State.CLOSED
        return Tdf2State.FAILED_ARCHIVE
    if result.server_state == ServerState.IN_PROGRESS:
        return Tdf2State.RUNNING
    return Tdf2State.OPEN if result.server_state == ServerState.UNSENT else Tdf2State.NEW


def eve_state(workunit: WorkunitFacts, *, now: datetime) -> EveState:
    """Return the state in Eve.

    A cancelled workunit is `pending_cancellation` while a host computes it, and `terminated` if a
    host finished it in spite of the request.  A success that waits for validation counts as
    running, because only a canonical result is an end.  Eve does not allow that an available task
    becomes inactive again; here it does if staff hold it, and only then.
    """
    is_cancelled = workunit.cancel_requested_at is not None or workunit.error_mask & _CANCELLED
    if workunit.canonical_result_id is not None:
        return EveState.TERMINATED
    if is_cancelled:
        if _is_running(workunit):
            return EveState.PENDING_CANCELLATION
        has_finished = any(result.outcome == Outcome.SUCCESS for result in workunit.results)
        return EveState.TERMINATED if has_finished else EveState.CANCELLED
    if workunit.error_mask:
        return EveState.TERMINATED
    if _is_running(workunit) or _awaits_judgement(workunit):
        return EveState.RUNNING
    is_early = workunit.start_after is not None and workunit.start_after > now
    is_inactive = workunit.release_state != ReleaseState.RELEASED or is_early
    return EveState.INACTIVE if is_inactive else EveState.AVAILABLE


def disbatch_status(
    workunit: WorkunitFacts, *, acknowledged: Collection[int] = ()
) -> DisbatchStatus:
    """Return the status code in Disbatch; `acknowledged` are ids of results that a host confirmed.

    A result that was sent and not confirmed is claimed; a confirmed result is running.
    """
    if workunit.canonical_result_id is not None:
        return DisbatchStatus.SUCCEEDED
    if workunit.error_mask & _CANCELLED or workunit.cancel_requested_at is not None:
        return DisbatchStatus.CANCELLED
    if workunit.error_mask:
        has_timed_out = workunit.error_mask & ErrorMask.TOO_MANY_TIMEOUTS
        return DisbatchStatus.ORPHANED if has_timed_out else DisbatchStatus.FAILED
    return _disbatch_status_of_open(workunit, acknowledged)


def with_own_code(
    status: DisbatchStatus, *, hold_code: int | None = None, app_status: int | None = None
) -> int:
    """Return the status, or the number that the submitter or the program chose for it.

    A held task has the code of its hold, and a success the positive status of its program.

    >>> with_own_code(DisbatchStatus.HELD, hold_code=-7)
    -7
    >>> with_own_code(DisbatchStatus.SUCCEEDED, app_status=77)
    77
    """
    if status is DisbatchStatus.HELD and hold_code is not None:
        return hold_code
    if status is DisbatchStatus.SUCCEEDED and app_status is not None:
        return app_status
    return int(status)


def _disbatch_status_of_open(
    workunit: WorkunitFacts, acknowledged: Collection[int]
) -> DisbatchStatus:
    statuses = [
        disbatch_status_of(result, is_acknowledged=result.id in acknowledged)
        for result in workunit.results
    ]
    for status in (DisbatchStatus.RUNNING, DisbatchStatus.CLAIMED):
        if status in statuses:
            return status
    if any(_is_awaited(result) for result in workunit.results):
        return DisbatchStatus.RUNNING
    if workunit.release_state == ReleaseState.HELD:
        return DisbatchStatus.HELD
    if statuses and statuses[-1] in {DisbatchStatus.ORPHANED, DisbatchStatus.ABORTED}:
        return statuses[-1]
    return DisbatchStatus.QUEUED


def disbatch_status_of(result: ResultFacts, *, is_acknowledged: bool) -> DisbatchStatus:
    """Return the status code in Disbatch of one result."""
    if result.server_state == ServerState.INACTIVE:
        return DisbatchStatus.HELD
    if result.server_state == ServerState.UNSENT:
        return DisbatchStatus.QUEUED
    if result.server_state == ServerState.IN_PROGRESS:
        return DisbatchStatus.RUNNING if is_acknowledged else DisbatchStatus.CLAIMED
    if result.outcome == Outcome.SUCCESS:
        return DisbatchStatus.FAILED if is_wrong(result) else DisbatchStatus.SUCCEEDED
    if result.outcome in {Outcome.NO_REPLY, Outcome.CLIENT_DETACHED}:
        return DisbatchStatus.ORPHANED
    if result.outcome == Outcome.DIDNT_NEED:
        return DisbatchStatus.CANCELLED
    is_abort = is_aborted(result.outcome, result.exit_status)
    return DisbatchStatus.ABORTED if is_abort else DisbatchStatus.FAILED


def _is_running(workunit: WorkunitFacts) -> bool:
    return any(result.server_state == ServerState.IN_PROGRESS for result in workunit.results)


def _has_unsent(workunit: WorkunitFacts) -> bool:
    return any(result.server_state == ServerState.UNSENT for result in workunit.results)


def _is_awaited(result: ResultFacts) -> bool:
    return result.outcome == Outcome.SUCCESS and result.validate_state in AWAITED


def _awaits_judgement(workunit: WorkunitFacts) -> bool:
    """Return whether a report waits for the validator, or a failure for the transitioner."""
    if any(_is_awaited(result) for result in workunit.results):
        return True
    if not workunit.results:
        return False
    last = workunit.results[-1]
    is_abort = is_aborted(last.outcome, last.exit_status)
    return last.outcome in ERRORS and not (_is_running(workunit) or is_abort)


def is_wrong(result: ResultFacts) -> bool:
    """Return whether a success was found invalid, which counts toward no limit of errors."""
    return result.outcome == Outcome.SUCCESS and result.validate_state == ValidateState.INVALID


def is_aborted(outcome: int, exit_status: int) -> bool:
    """Return whether the volunteer aborted an attempt, which counts toward no limit of errors."""
    return outcome == Outcome.CLIENT_ERROR and exit_status == EXIT_ABORTED_BY_USER
