"""The words in which scientists are told where a workunit is [pure]."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from scheduler.lifecycle import ErrorMask, Outcome, ReleaseState, ServerState, ValidateState

if TYPE_CHECKING:
    from datetime import datetime

    from scheduler.results.facts import WorkunitFacts


class Status(StrEnum):
    """Where a workunit is, from the one who waits for it."""

    WAITING = "waiting"
    UNSENT = "unsent"
    IN_PROGRESS = "in_progress"
    VALIDATING = "validating"
    DONE = "done"
    FAILED = "failed"


#: A success is waited for as long as it may still become the answer.
AWAITED: Final = (ValidateState.INIT, ValidateState.VALID, ValidateState.INCONCLUSIVE)


def status_of(workunit: WorkunitFacts, *, now: datetime) -> Status:
    """Say where a workunit is; `work.progress.status` says the same in SQL.

    *waiting*: held, not to start yet, or for another batch; *unsent*: no computer has it;
    *in_progress*: one has; *validating*: a success waits for others or for the validator;
    *done*: it has its answer; *failed*: it has its reasons why not.
    """
    if workunit.canonical_result_id is not None:
        return Status.DONE
    if workunit.error_mask:
        return Status.FAILED
    if any(r.outcome == Outcome.SUCCESS and r.validate_state in AWAITED for r in workunit.results):
        return Status.VALIDATING
    if any(r.server_state == ServerState.IN_PROGRESS for r in workunit.results):
        return Status.IN_PROGRESS
    is_early = workunit.start_after is not None and workunit.start_after > now
    if workunit.release_state != ReleaseState.RELEASED or is_early:
        return Status.WAITING
    return Status.UNSENT


def error_words(error_mask: int) -> list[str]:
    """Why a workunit failed, in the law's words.

    >>> error_words(16)
    ['CANCELLED']
    """
    return [bit.name or "" for bit in ErrorMask(error_mask)]
