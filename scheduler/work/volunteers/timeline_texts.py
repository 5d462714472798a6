"""The moves of a result as sentences for the owner of its computer [pure].

The moves before a result is sent are left out, because the timeline begins with that move.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.lifecycle import Axis, Because, ResultState, ValidateState

#: The steps of a result whose moves are not in the ledger.
SENT: Final = "Sent to this computer."
ENDED: Final = "Ended."
_UNKNOWN: Final = "The state of the result changed."

_RESULT: Final[Mapping[tuple[ResultState, Because], str]] = {
    (ResultState.IN_PROGRESS, Because.SENT): SENT,
    (ResultState.IN_PROGRESS, Because.RESENT): "Sent to this computer again, because it had lost "
    "the result.",
    (ResultState.SUCCESS, Because.REPORTED): "Reported: the program finished without an error.",
    (ResultState.CLIENT_ERROR, Because.REPORTED_ERROR): "Reported: the program failed or was "
    "aborted.",
    (ResultState.SUCCESS, Because.REPORTED_LATE): "Reported after the deadline: the program "
    "finished without an error.",
    (ResultState.CLIENT_ERROR, Because.REPORTED_ERROR_LATE): "Reported after the deadline: the "
    "program failed or was aborted.",
    (ResultState.CLIENT_DETACHED, Because.HOST_DETACHED): "Given up: the computer was detached "
    "from the project, or the project was reset on it.",
    (ResultState.NO_REPLY, Because.DEADLINE_PASSED): "Given up: the deadline passed without a "
    "report.",
    (ResultState.NO_REPLY, Because.NEVER_ACKNOWLEDGED): "Given up: the computer did not confirm "
    "that it has the result.",
    (ResultState.DIDNT_NEED, Because.CANONICAL_FOUND): "Not sent: the workunit has an answer.",
    (ResultState.DIDNT_NEED, Because.WORKUNIT_FAILED): "Not sent: the workunit ended without an "
    "answer.",
    (ResultState.COULDNT_SEND, Because.UNSENDABLE): "Not sent: no computer could get it.",
    (ResultState.VALIDATE_ERROR, Because.OUTPUT_MISSING): "Refused: an output file was missing or "
    "unreadable.",
}
_VALIDATION: Final[Mapping[tuple[ValidateState, Because], str]] = {
    (ValidateState.INVALID, Because.REPORTED_ERROR): "Not valid, because the program did not "
    "finish.",
    (ValidateState.INVALID, Because.REPORTED_ERROR_LATE): "Not valid, because the program did not "
    "finish.",
    (ValidateState.INCONCLUSIVE, Because.NO_QUORUM_YET): "Compared with results of other "
    "computers: too few of them agree.",
    (ValidateState.VALID, Because.AGREES): "Found valid: the output agrees with the accepted "
    "answer.",
    (ValidateState.INVALID, Because.DISAGREES): "Found invalid: the output disagrees with the "
    "accepted answer.",
    (ValidateState.INVALID, Because.OUTPUT_MISSING): "Found invalid: an output file was missing "
    "or unreadable.",
    (ValidateState.NO_CHECK, Because.WORKUNIT_FAILED): "Not validated, because the workunit ended "
    "without an answer.",
    (ValidateState.INIT, Because.REVALIDATION): "To be validated again, as the project's staff "
    "requested.",
    (ValidateState.TOO_LATE, Because.TOO_LATE): "Not validated: the report arrived after the files "
    "for the comparison were deleted.",
}
_SENTENCES: Final[Mapping[tuple[int, int, int], str]] = {
    **{(Axis.RESULT, *move): text for move, text in _RESULT.items()},
    **{(Axis.VALIDATION, *move): text for move, text in _VALIDATION.items()},
}
#: Every sentence of this module.
SENTENCES: Final = frozenset({*_SENTENCES.values(), SENT, ENDED, _UNKNOWN})


def sentence_of(axis: int, target: int, because: int) -> str:
    """Return a sentence about a move to the state `target`; codes are those of the ledger.

    >>> sentence_of(Axis.RESULT, ResultState.IN_PROGRESS, Because.SENT)
    'Sent to this computer.'
    """
    return _SENTENCES.get((axis, target, because), _UNKNOWN)
