"""The states of results in the terms of volunteers, with explanations."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from scheduler.lifecycle import Outcome, ServerState, ValidateState
from scheduler.models.science import CreditRule
from scheduler.results.rules.replication import EXIT_ABORTED_BY_USER
from scheduler.results.rules.reports import EXIT_ABORTED_BY_PROJECT


class OwnState(StrEnum):
    """The state of a volunteer's result; each result that was sent has exactly one."""

    IN_PROGRESS = "in_progress"
    WAITING = "waiting"
    VALID = "valid"
    INVALID = "invalid"
    ERROR = "error"


LABELS: Final = {
    OwnState.IN_PROGRESS: "in progress",
    OwnState.WAITING: "waiting for validation",
    OwnState.VALID: "valid",
    OwnState.INVALID: "invalid",
    OwnState.ERROR: "error",
}
_OF_VALIDATION: Final = {
    ValidateState.INIT: OwnState.WAITING,
    ValidateState.INCONCLUSIVE: OwnState.WAITING,
    ValidateState.VALID: OwnState.VALID,
    ValidateState.INVALID: OwnState.INVALID,
    ValidateState.NO_CHECK: OwnState.INVALID,
    ValidateState.TOO_LATE: OwnState.INVALID,
}
_WHY_BY_VALIDATION: Final = {
    ValidateState.INIT: "The report arrived. The result is not validated yet.",
    ValidateState.INCONCLUSIVE: "The results that were compared do not agree. Another computer "
    "computes the workunit again, and decides.",
    ValidateState.VALID: "The result is correct: it agrees with the accepted answer.",
    ValidateState.INVALID: "The output disagrees with the accepted answer of the workunit.",
    ValidateState.NO_CHECK: "The result was not validated, because the workunit ended without an "
    "answer.",
    ValidateState.TOO_LATE: "The report arrived after the files for the comparison were deleted.",
}
_WHY_BY_OUTCOME: Final = {
    Outcome.CLIENT_ERROR: "The program failed on your computer.",
    Outcome.NO_REPLY: "Your computer did not report the result before the deadline.",
    Outcome.CLIENT_DETACHED: "The computer was detached from the project, or the project was reset "
    "on it.",
    Outcome.VALIDATE_ERROR: "The validator refused the output before it was compared with others, "
    "because a file was missing or unreadable.",
    Outcome.DIDNT_NEED: "The result was not needed any more.",
    Outcome.COULDNT_SEND: "The result could not be sent.",
}
_WHY_CREDIT: Final = {
    CreditRule.FIXED: "The app grants the same amount for every valid result.",
    CreditRule.RUNTIME: "The claim of a result is its elapsed time × the speed of the devices "
    "used. All valid results of a workunit get the mean of their claims, without the highest one.",
    CreditRule.ADAPTIVE: "The claim of a result is its elapsed time × the speed of the devices "
    "used, corrected by the usual claims of the computer and of the app version. All valid results "
    "of a workunit get the same average of their claims.",
    CreditRule.NONE: "The app grants no credit.",
}


def state_of(server_state: int, outcome: int, validate_state: int) -> OwnState:
    """Return the state of a result that was sent to a host.

    >>> state_of(ServerState.OVER, Outcome.SUCCESS, ValidateState.INCONCLUSIVE).value
    'waiting'
    """
    if server_state != ServerState.OVER:
        return OwnState.IN_PROGRESS
    if outcome == Outcome.SUCCESS:
        return _OF_VALIDATION[ValidateState(validate_state)]
    return OwnState.INVALID if outcome == Outcome.VALIDATE_ERROR else OwnState.ERROR


def codes_of(state: OwnState | None) -> list[int]:
    """Return the codes of ended results in a state, or all codes for None.

    The code of a result is ``10 * outcome + validate_state``.
    """
    every: Iterable[tuple[Outcome, ValidateState]] = (
        (outcome, validity) for outcome in Outcome for validity in ValidateState
    )
    return [
        10 * outcome + validity
        for outcome, validity in every
        if state is None or state_of(ServerState.OVER, outcome, validity) == state
    ]


def why(server_state: int, outcome: int, validate_state: int, exit_status: int) -> str:
    """Return a sentence that explains the state of a result."""
    if server_state != ServerState.OVER:
        return "Your computer has the result, and has not reported it yet."
    if outcome == Outcome.SUCCESS:
        return _WHY_BY_VALIDATION[ValidateState(validate_state)]
    if outcome == Outcome.CLIENT_ERROR and exit_status == EXIT_ABORTED_BY_USER:
        return "The result was aborted on your computer."
    if outcome == Outcome.CLIENT_ERROR and exit_status == EXIT_ABORTED_BY_PROJECT:
        return "The project aborted the result, because it was not needed any more."
    return _WHY_BY_OUTCOME[Outcome(outcome)]


def why_credit(rule: str) -> str:
    """Return how a credit rule computes the amount; the name of an unknown rule."""
    return _WHY_CREDIT[CreditRule(rule)] if rule in CreditRule.values else rule
