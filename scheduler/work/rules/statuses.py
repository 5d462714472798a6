"""Defines the status of a workunit that is shown to scientists [pure]."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from scheduler.lifecycle import ErrorMask, Outcome, ReleaseState, ServerState, ValidateState

if TYPE_CHECKING:
    from datetime import datetime

    from scheduler.results.facts import WorkunitFacts


class Status(StrEnum):
    """The status of a workunit, as `status_of` defines it."""

    WAITING = "waiting"
    UNSENT = "unsent"
    IN_PROGRESS = "in_progress"
    VALIDATING = "validating"
    DONE = "done"
    FAILED = "failed"


#: Validation states in which a success may still become the canonical result.
AWAITED: Final = (ValidateState.INIT, ValidateState.VALID, ValidateState.INCONCLUSIVE)


def status_of(workunit: WorkunitFacts, *, now: datetime) -> Status:
    """Return the status of a workunit; `work.progress.status` implements the same rule in SQL.

    A workunit is

    - *waiting* if it is held, must not start yet, or follows another batch;
    - *unsent* if it may be sent, but no host has a result of it;
    - *in_progress* if a host has a result of it;
    - *validating* if a successful result waits for other results or for the validator;
    - *done* if it has a canonical result;
    - *failed* if it ended with an error.
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
    """Return the names of the errors in the `error_mask` of a workunit.

    >>> error_words(16)
    ['CANCELLED']
    """
    return [bit.name or "" for bit in ErrorMask(error_mask)]
