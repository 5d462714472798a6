"""The state of a workunit in the terms of volunteers, with explanations [pure]."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from scheduler.lifecycle import ErrorMask
from scheduler.work.volunteers.result_states import OwnState


class WorkunitState(StrEnum):
    """The state of a workunit of which a volunteer has or had a result."""

    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"


LABELS: Final = {
    WorkunitState.WAITING: "waiting for an answer",
    WorkunitState.DONE: "answered",
    WorkunitState.FAILED: "failed",
}
_DONE: Final = "The project accepted an answer. The workunit is complete."
#: The reasons of a failure; the first one that applies is given.
_WHY_FAILED: Final = {
    ErrorMask.CANCELLED: "The project does not need the workunit any more, and cancelled it.",
    ErrorMask.EXPIRED: "The project needed the answer by a certain time, which has passed.",
    ErrorMask.DEPENDENCY_FAILED: "The workunit needed the answer of another one, which failed.",
    ErrorMask.TOO_MANY_ERROR_RESULTS: "The program failed on too many computers.",
    ErrorMask.TOO_MANY_TIMEOUTS: "Too many computers did not report before their deadlines.",
    ErrorMask.TOO_MANY_SUCCESS_RESULTS: "Too many results arrived that do not agree.",
    ErrorMask.NO_CANONICAL_RESULT: "The results that were compared do not agree.",
    ErrorMask.TOO_MANY_TOTAL_RESULTS: "It was sent to as many computers as permitted, without an "
    "answer.",
    ErrorMask.COULDNT_SEND: "No computer could get the workunit.",
}
_UNKNOWN_FAILURE: Final = "The workunit ended without an answer."
_IN_PROGRESS: Final = (
    "It waits for your computer, which has not reported its result yet. Other computers can have "
    "it, too."
)
_REPORTED: Final = (
    "Your result arrived. The project has not accepted an answer yet: it waits for results of "
    "other computers, or for the comparison of results."
)
_ENDED: Final = "Your result gave no answer. The workunit waits for the result of another computer."


def workunit_state(
    *, has_answer: bool, error_mask: int, own_states: Collection[OwnState]
) -> WorkunitState:
    """Return the state of a workunit for a volunteer with results in the states `own_states`.

    While one of them is in progress, the state is WAITING.  Otherwise it would show, before the
    report, whether a result will be compared (`own_result`).
    """
    if OwnState.IN_PROGRESS in own_states:
        return WorkunitState.WAITING
    if error_mask:
        return WorkunitState.FAILED
    return WorkunitState.DONE if has_answer else WorkunitState.WAITING


def why_workunit(state: WorkunitState, *, error_mask: int, own_states: Collection[OwnState]) -> str:
    """Return a sentence that explains the state of a workunit.

    In the state WAITING, the sentence depends only on the states of the volunteer's own results.
    """
    if state is WorkunitState.DONE:
        return _DONE
    if state is WorkunitState.FAILED:
        reasons = (text for bit, text in _WHY_FAILED.items() if error_mask & bit)
        return next(reasons, _UNKNOWN_FAILURE)
    if OwnState.IN_PROGRESS in own_states:
        return _IN_PROGRESS
    if OwnState.WAITING in own_states or OwnState.VALID in own_states:
        return _REPORTED
    return _ENDED
