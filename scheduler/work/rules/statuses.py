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


#: The status codes of Disbatch that mean something else: orphaned, queued, claimed.
_TAKEN_CODES: Final = {-6: "orphaned", -2: "queued", -1: "claimed"}
#: The code of a workunit that was submitted with `held`, and of a hold without a code by its
#: submitter: "held" in Disbatch.
DEFAULT_HOLD_CODE: Final = -4
_MIN_HOLD_CODE: Final = -(2**15)


def hold_code_fault(code: int) -> str:
    """Return why a number cannot be the code of a hold, with a hint; an empty text if it can.

    >>> hold_code_fault(-7), hold_code_fault(-2)
    ('', 'hold_code is -2, which means queued. Hint: use -3, -4, -5, or -7 and lower.')
    """
    hint = "Hint: use -3, -4, -5, or -7 and lower."
    if meaning := _TAKEN_CODES.get(code):
        return f"hold_code is {code}, which means {meaning}. {hint}"
    if not _MIN_HOLD_CODE <= code < 0:
        return f"hold_code is {code}, not a number from {_MIN_HOLD_CODE} to -1. {hint}"
    return ""


def error_words(error_mask: int) -> list[str]:
    """Return the names of the errors in the `error_mask` of a workunit.

    >>> error_words(16)
    ['CANCELLED']
    """
    return [bit.name or "" for bit in ErrorMask(error_mask)]
