"""The law of states: every state and every legal move, in one table [pure].

All code that decides whether a state may change is in this file, and this file depends on no table,
no clock and no caller.  Choices, CHECK constraints, ``WHERE`` guards, the guard trigger,
``docs/lifecycle.md`` and the timeline are derived from it.

Theory of operation.  A workunit and its results move along seven *axes*.  Each axis is a small
state machine, and the state of a row is its position on each axis.  A `Move` has the axis, the old
state, the new state, the reason and the actor.  For each axis, pair of states and reason, there is
only one actor.  The numeric codes of the columns are BOINC's, which BOINC's tools and operators
already use.

The ``result`` axis combines BOINC's pair (server_state, outcome) into one code, ``10 * server_state
+ outcome``; the outcome is INIT unless the server state is OVER.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, IntFlag


class ServerState(IntEnum):
    """The state of a result on the server (BOINC's ``server_state``)."""

    INACTIVE = 1
    UNSENT = 2
    IN_PROGRESS = 4
    OVER = 5


class Outcome(IntEnum):
    """How a result ended; INIT until it is OVER (BOINC's ``outcome``)."""

    INIT = 0
    SUCCESS = 1
    COULDNT_SEND = 2
    CLIENT_ERROR = 3
    NO_REPLY = 4
    DIDNT_NEED = 5
    VALIDATE_ERROR = 6
    CLIENT_DETACHED = 7


class ResultState(IntEnum):
    """The server state and the outcome of a result as one code: ``10 * server_state + outcome``."""

    INACTIVE = 10
    UNSENT = 20
    IN_PROGRESS = 40
    SUCCESS = 51
    COULDNT_SEND = 52
    CLIENT_ERROR = 53
    NO_REPLY = 54
    DIDNT_NEED = 55
    VALIDATE_ERROR = 56
    CLIENT_DETACHED = 57

    @property
    def server_state(self) -> ServerState:
        return ServerState(self.value // 10)

    @property
    def outcome(self) -> Outcome:
        return Outcome(self.value % 10)


class ClientState(IntEnum):
    """The client's state of a result at the time of its report (PROTOCOL 0.3)."""

    NEW = 0
    FILES_DOWNLOADING = 1
    FILES_DOWNLOADED = 2
    COMPUTE_ERROR = 3
    FILES_UPLOADING = 4
    FILES_UPLOADED = 5
    ABORTED = 6
    UPLOAD_FAILED = 7


class ValidateState(IntEnum):
    """The state of a result's validation (BOINC's ``validate_state``)."""

    INIT = 0
    VALID = 1
    INVALID = 2
    NO_CHECK = 3
    INCONCLUSIVE = 4
    TOO_LATE = 5


class FileDeleteState(IntEnum):
    """Whether files are still needed: the inputs of a workunit, the outputs of a result."""

    INIT = 0
    READY = 1
    DONE = 2
    ERROR = 3


class AssimilateState(IntEnum):
    """Whether the assimilator has processed the finished workunit."""

    INIT = 0
    READY = 1
    DONE = 2


class ReleaseState(IntEnum):
    """Whether results of a workunit may be created and sent."""

    INACTIVE = 1
    HELD = 2
    RELEASED = 3


class WorkunitState(IntEnum):
    """Whether a workunit is open, has a canonical result, has failed, or is a complete group."""

    OPEN = 1
    CANONICAL = 2
    FAILED = 3
    COMPLETE = 4


class ErrorMask(IntFlag):
    """Why a workunit failed; the first six bits are BOINC's, the others Manyhands's."""

    COULDNT_SEND = 1
    TOO_MANY_ERROR_RESULTS = 2
    TOO_MANY_SUCCESS_RESULTS = 4
    TOO_MANY_TOTAL_RESULTS = 8
    CANCELLED = 16
    NO_CANONICAL_RESULT = 32
    EXPIRED = 64
    TOO_MANY_TIMEOUTS = 128
    DEPENDENCY_FAILED = 256


class Target(IntEnum):
    """The kind of target to which a result is restricted; other hosts do not get the result.

    A result in a queue goes to the hosts that the queue serves.
    """

    EVERYBODY = 0
    HOST = 1
    ACCOUNT = 2
    TEAM = 3
    QUEUE = 4
    # A task list; the id is that of the bundle, or 0 while the result waits for one.
    BUNDLE = 5


class BundleState(IntEnum):
    """The states of a task list, which follow from the results of its members (TDF2)."""

    OPEN = 1
    RUNNING = 2
    CLOSED = 3


class Axis(IntEnum):
    """The seven state machines of workunits and results; codes are stored in the ledger."""

    RESULT = 1
    VALIDATION = 2
    RESULT_FILES = 3
    WORKUNIT = 4
    RELEASE = 5
    ASSIMILATION = 6
    WORKUNIT_FILES = 7

    @property
    def label(self) -> str:
        """The name of the axis in lower case, for display."""
        return self.name.lower().replace("_", " ")


class Actor(IntEnum):
    """The programs and people that make moves; codes are stored in the ledger."""

    SUBMITTER = 1
    SCHEDULER = 2
    TRANSITIONER = 3
    TIMEOUT_CHECKER = 4
    VALIDATOR = 5
    ASSIMILATOR = 6
    FILE_DELETER = 7
    STAFF = 8

    @property
    def label(self) -> str:
        """The name of the actor in lower case, for display."""
        return self.name.lower()


class Because(IntEnum):
    """The reason of a move; codes are stored in the ledger and never reused."""

    SUBMITTED = 1
    REPLICA_NEEDED = 2
    SENT = 3
    RESENT = 4
    REPORTED = 5
    REPORTED_ERROR = 6
    REPORTED_LATE = 7
    REPORTED_ERROR_LATE = 8
    DEADLINE_PASSED = 9
    NEVER_ACKNOWLEDGED = 10
    HOST_DETACHED = 11
    CANONICAL_FOUND = 12
    WORKUNIT_FAILED = 13
    UNSENDABLE = 14
    OUTPUT_MISSING = 15
    NO_QUORUM_YET = 16
    AGREES = 17
    DISAGREES = 18
    TOO_LATE = 19
    NO_LONGER_NEEDED = 20
    DELETED = 21
    COULD_NOT_DELETE = 22
    UPLOADED_LATE = 23
    ASSIMILATED = 24
    HELD = 25
    RELEASED = 26
    DEPENDENCIES_MET = 27
    TOO_MANY_ERRORS = 28
    TOO_MANY_SUCCESSES = 29
    TOO_MANY_RESULTS = 30
    TOO_MANY_TIMEOUTS = 31
    CANCELLED = 32
    EXPIRED = 33
    DEPENDENCY_FAILED = 34
    REVALIDATION = 35
    BROADCAST = 36
    NO_AGREEMENT = 37
    GIVEN_UP = 38
    DEPENDENCY_ADDED = 39

    @property
    def label(self) -> str:
        """The text of the reason, for display."""
        return _REASONS.get(self) or self.name.lower().replace("_", " ")


_REASONS = {
    Because.SENT: "sent to a host",
    Because.RESENT: "lost by the host, sent again",
    Because.REPORTED_ERROR: "reported with an error",
    Because.REPORTED_ERROR_LATE: "reported late with an error",
    Because.AGREES: "agrees with the canonical result",
    Because.DISAGREES: "disagrees with the canonical result",
    Because.OUTPUT_MISSING: "output missing or unreadable",
    Because.TOO_LATE: "reported after the files for the comparison were deleted",
    Because.REVALIDATION: "to be validated again, as requested by staff",
    Because.BROADCAST: "broadcast to every host",
    Because.NO_AGREEMENT: "no two results agree",
    Because.GIVEN_UP: "given up by staff without assimilation",
}

#: The `source` of a move that creates a row.
NOTHING = 0
#: The ``canonical_result_id`` of a complete group: it has an answer, but no result.
NO_RESULT = 0

State = (
    ResultState | ValidateState | FileDeleteState | AssimilateState | ReleaseState | WorkunitState
)

#: The states of each axis; `INITIAL` has the states in which a row may be created.
STATES: dict[Axis, type[State]] = {
    Axis.RESULT: ResultState,
    Axis.VALIDATION: ValidateState,
    Axis.RESULT_FILES: FileDeleteState,
    Axis.WORKUNIT: WorkunitState,
    Axis.RELEASE: ReleaseState,
    Axis.ASSIMILATION: AssimilateState,
    Axis.WORKUNIT_FILES: FileDeleteState,
}
INITIAL: dict[Axis, tuple[State, ...]] = {
    Axis.RESULT: (ResultState.UNSENT, ResultState.INACTIVE),
    Axis.VALIDATION: (ValidateState.INIT,),
    Axis.RESULT_FILES: (FileDeleteState.INIT,),
    Axis.WORKUNIT: (WorkunitState.OPEN,),
    Axis.RELEASE: (ReleaseState.RELEASED, ReleaseState.HELD, ReleaseState.INACTIVE),
    Axis.ASSIMILATION: (AssimilateState.INIT,),
    Axis.WORKUNIT_FILES: (FileDeleteState.INIT,),
}


@dataclass(frozen=True, slots=True)
class Move:
    """One legal move; `source` is NOTHING (0) if the move creates the row."""

    axis: Axis
    source: int
    target: int
    because: Because
    by: Actor

    def __str__(self) -> str:
        return (
            f"{self.axis.label}: {state_label(self.axis, self.source)}"
            f"→{state_label(self.axis, self.target)}"
            f' because="{self.because.label}" by={self.by.label}'
        )


R, V, F, A, W = ResultState, ValidateState, FileDeleteState, AssimilateState, WorkunitState
B = Because
_SCHEDULER, _TRANSITIONER, _VALIDATOR = Actor.SCHEDULER, Actor.TRANSITIONER, Actor.VALIDATOR
_SUBMITTER = Actor.SUBMITTER

# fmt: off
_TABLE: tuple[tuple[Axis, int, int, Because, Actor], ...] = (
    # A result: created, sent, reported or given up.
    (Axis.RESULT, NOTHING,         R.UNSENT,          B.REPLICA_NEEDED,      _TRANSITIONER),
    (Axis.RESULT, NOTHING,         R.INACTIVE,        B.REPLICA_NEEDED,      _TRANSITIONER),
    (Axis.RESULT, NOTHING,         R.UNSENT,          B.BROADCAST,           _SCHEDULER),
    (Axis.RESULT, R.UNSENT,        R.INACTIVE,        B.HELD,                _TRANSITIONER),
    (Axis.RESULT, R.INACTIVE,      R.UNSENT,          B.RELEASED,            _TRANSITIONER),
    (Axis.RESULT, R.UNSENT,        R.IN_PROGRESS,     B.SENT,                _SCHEDULER),
    (Axis.RESULT, R.IN_PROGRESS,   R.IN_PROGRESS,     B.RESENT,              _SCHEDULER),
    (Axis.RESULT, R.IN_PROGRESS,   R.SUCCESS,         B.REPORTED,            _SCHEDULER),
    (Axis.RESULT, R.IN_PROGRESS,   R.CLIENT_ERROR,    B.REPORTED_ERROR,      _SCHEDULER),
    (Axis.RESULT, R.NO_REPLY,      R.SUCCESS,         B.REPORTED_LATE,       _SCHEDULER),
    (Axis.RESULT, R.NO_REPLY,      R.CLIENT_ERROR,    B.REPORTED_ERROR_LATE, _SCHEDULER),
    (Axis.RESULT, R.IN_PROGRESS,   R.CLIENT_DETACHED, B.HOST_DETACHED,       _SCHEDULER),
    (Axis.RESULT, R.IN_PROGRESS,   R.NO_REPLY,        B.DEADLINE_PASSED,     Actor.TIMEOUT_CHECKER),
    (Axis.RESULT, R.IN_PROGRESS,   R.NO_REPLY,        B.NEVER_ACKNOWLEDGED,  Actor.TIMEOUT_CHECKER),
    (Axis.RESULT, R.UNSENT,        R.DIDNT_NEED,      B.CANONICAL_FOUND,     _TRANSITIONER),
    (Axis.RESULT, R.INACTIVE,      R.DIDNT_NEED,      B.CANONICAL_FOUND,     _TRANSITIONER),
    (Axis.RESULT, R.UNSENT,        R.DIDNT_NEED,      B.WORKUNIT_FAILED,     _TRANSITIONER),
    (Axis.RESULT, R.INACTIVE,      R.DIDNT_NEED,      B.WORKUNIT_FAILED,     _TRANSITIONER),
    (Axis.RESULT, R.UNSENT,        R.COULDNT_SEND,    B.UNSENDABLE,          _TRANSITIONER),
    (Axis.RESULT, R.SUCCESS,       R.VALIDATE_ERROR,  B.OUTPUT_MISSING,      _VALIDATOR),
    # The validation of a result.
    (Axis.VALIDATION, V.INIT,         V.INVALID,      B.REPORTED_ERROR,      _SCHEDULER),
    (Axis.VALIDATION, V.INIT,         V.INVALID,      B.REPORTED_ERROR_LATE, _SCHEDULER),
    (Axis.VALIDATION, V.INIT,         V.INCONCLUSIVE, B.NO_QUORUM_YET,       _VALIDATOR),
    (Axis.VALIDATION, V.INIT,         V.VALID,        B.AGREES,              _VALIDATOR),
    (Axis.VALIDATION, V.INCONCLUSIVE, V.VALID,        B.AGREES,              _VALIDATOR),
    (Axis.VALIDATION, V.INIT,         V.INVALID,      B.DISAGREES,           _VALIDATOR),
    (Axis.VALIDATION, V.INCONCLUSIVE, V.INVALID,      B.DISAGREES,           _VALIDATOR),
    (Axis.VALIDATION, V.INIT,         V.INVALID,      B.OUTPUT_MISSING,      _VALIDATOR),
    (Axis.VALIDATION, V.INCONCLUSIVE, V.INVALID,      B.OUTPUT_MISSING,      _VALIDATOR),
    (Axis.VALIDATION, V.INIT,         V.NO_CHECK,     B.WORKUNIT_FAILED,     _TRANSITIONER),
    (Axis.VALIDATION, V.INCONCLUSIVE, V.NO_CHECK,     B.WORKUNIT_FAILED,     _TRANSITIONER),
    (Axis.VALIDATION, V.VALID,        V.INIT,         B.REVALIDATION,        _TRANSITIONER),
    (Axis.VALIDATION, V.INVALID,      V.INIT,         B.REVALIDATION,        _TRANSITIONER),
    (Axis.VALIDATION, V.INCONCLUSIVE, V.INIT,         B.REVALIDATION,        _TRANSITIONER),
    (Axis.VALIDATION, V.INIT,         V.TOO_LATE,     B.TOO_LATE,            _TRANSITIONER),
    (Axis.VALIDATION, V.INCONCLUSIVE, V.TOO_LATE,     B.TOO_LATE,            _TRANSITIONER),
    # The output files of a result.
    (Axis.RESULT_FILES, F.INIT,  F.READY, B.NO_LONGER_NEEDED, _TRANSITIONER),
    (Axis.RESULT_FILES, F.READY, F.DONE,  B.DELETED,          Actor.FILE_DELETER),
    (Axis.RESULT_FILES, F.READY, F.ERROR, B.COULD_NOT_DELETE, Actor.FILE_DELETER),
    (Axis.RESULT_FILES, F.ERROR, F.DONE,  B.DELETED,          Actor.FILE_DELETER),
    (Axis.RESULT_FILES, F.DONE,  F.READY, B.UPLOADED_LATE,    _SCHEDULER),
    # A workunit: its canonical result, or the reason of its failure.
    (Axis.WORKUNIT, NOTHING, W.OPEN,      B.SUBMITTED,          Actor.SUBMITTER),
    (Axis.WORKUNIT, W.OPEN,  W.CANONICAL, B.AGREES,             _VALIDATOR),
    (Axis.WORKUNIT, W.OPEN,  W.FAILED,    B.UNSENDABLE,         _TRANSITIONER),
    (Axis.WORKUNIT, W.OPEN,  W.FAILED,    B.TOO_MANY_ERRORS,    _TRANSITIONER),
    (Axis.WORKUNIT, W.OPEN,  W.FAILED,    B.TOO_MANY_SUCCESSES, _TRANSITIONER),
    (Axis.WORKUNIT, W.OPEN,  W.FAILED,    B.TOO_MANY_RESULTS,   _TRANSITIONER),
    (Axis.WORKUNIT, W.OPEN,  W.FAILED,    B.TOO_MANY_TIMEOUTS,  _TRANSITIONER),
    (Axis.WORKUNIT, W.OPEN,  W.FAILED,    B.CANCELLED,          _TRANSITIONER),
    (Axis.WORKUNIT, W.OPEN,  W.FAILED,    B.EXPIRED,            _TRANSITIONER),
    (Axis.WORKUNIT, W.OPEN,  W.FAILED,    B.DEPENDENCY_FAILED,  _TRANSITIONER),
    (Axis.WORKUNIT, W.OPEN,  W.FAILED,    B.NO_AGREEMENT,       _TRANSITIONER),
    (Axis.WORKUNIT, W.CANONICAL, W.OPEN,  B.REVALIDATION,       _TRANSITIONER),
    (Axis.WORKUNIT, W.OPEN,  W.COMPLETE,  B.DEPENDENCIES_MET,   _TRANSITIONER),
    # Whether results of a workunit may be created and sent.
    (Axis.RELEASE, ReleaseState.INACTIVE, ReleaseState.RELEASED, B.DEPENDENCIES_MET, _TRANSITIONER),
    (Axis.RELEASE, ReleaseState.HELD,     ReleaseState.INACTIVE, B.DEPENDENCY_ADDED, _SUBMITTER),
    (Axis.RELEASE, ReleaseState.HELD,     ReleaseState.RELEASED, B.RELEASED,         Actor.STAFF),
    (Axis.RELEASE, ReleaseState.RELEASED, ReleaseState.HELD,     B.HELD,             Actor.STAFF),
    # The assimilation of a workunit.
    (Axis.ASSIMILATION, A.INIT,  A.READY, B.CANONICAL_FOUND, _TRANSITIONER),
    (Axis.ASSIMILATION, A.INIT,  A.READY, B.WORKUNIT_FAILED, _TRANSITIONER),
    (Axis.ASSIMILATION, A.INIT,  A.DONE,  B.DEPENDENCIES_MET, _TRANSITIONER),
    (Axis.ASSIMILATION, A.INIT,  A.DONE,  B.WORKUNIT_FAILED, _TRANSITIONER),
    (Axis.ASSIMILATION, A.READY, A.INIT,  B.REVALIDATION,    _TRANSITIONER),
    (Axis.ASSIMILATION, A.READY, A.DONE,  B.ASSIMILATED,     Actor.ASSIMILATOR),
    (Axis.ASSIMILATION, A.READY, A.DONE,  B.GIVEN_UP,        Actor.STAFF),
    # The input files of a workunit.
    (Axis.WORKUNIT_FILES, F.INIT,  F.READY, B.NO_LONGER_NEEDED, _TRANSITIONER),
    (Axis.WORKUNIT_FILES, F.READY, F.DONE,  B.DELETED,          Actor.FILE_DELETER),
    (Axis.WORKUNIT_FILES, F.READY, F.ERROR, B.COULD_NOT_DELETE, Actor.FILE_DELETER),
    (Axis.WORKUNIT_FILES, F.ERROR, F.DONE,  B.DELETED,          Actor.FILE_DELETER),
)
# fmt: on

MOVES: tuple[Move, ...] = tuple(Move(*row) for row in _TABLE)

#: The bit that each reason sets in a workunit's ``error_mask``.
ERROR_BITS: dict[Because, ErrorMask] = {
    Because.UNSENDABLE: ErrorMask.COULDNT_SEND,
    Because.TOO_MANY_ERRORS: ErrorMask.TOO_MANY_ERROR_RESULTS,
    Because.TOO_MANY_SUCCESSES: ErrorMask.TOO_MANY_SUCCESS_RESULTS,
    Because.TOO_MANY_RESULTS: ErrorMask.TOO_MANY_TOTAL_RESULTS,
    Because.TOO_MANY_TIMEOUTS: ErrorMask.TOO_MANY_TIMEOUTS,
    Because.CANCELLED: ErrorMask.CANCELLED,
    Because.EXPIRED: ErrorMask.EXPIRED,
    Because.DEPENDENCY_FAILED: ErrorMask.DEPENDENCY_FAILED,
    Because.NO_AGREEMENT: ErrorMask.NO_CANONICAL_RESULT,
}


class IllegalMove(Exception):
    """The law does not contain this move. Hint: docs/lifecycle.md lists the legal moves."""


def state_label(axis: Axis, code: int) -> str:
    """Return a state's name for display; ``nothing`` for the source of a creation.

    >>> state_label(Axis.RESULT, 54)
    'OVER/NO_REPLY'
    """
    if code == NOTHING and axis in (Axis.RESULT, Axis.WORKUNIT, Axis.RELEASE):
        return "nothing"
    state = STATES[axis](code)
    if isinstance(state, ResultState) and state.server_state is ServerState.OVER:
        return f"OVER/{state.name}"
    return state.name


def edges(axis: Axis) -> tuple[tuple[int, int], ...]:
    """Return the pairs (source, target) of an axis's legal moves, sorted.

    Moves that create a row are not included.
    """
    return tuple(
        sorted({(m.source, m.target) for m in MOVES if m.axis is axis and not _is_creation(m)})
    )


def sources(axis: Axis, target: int, by: Actor | None = None) -> tuple[int, ...]:
    """Return the states from which a legal move leads to `target`, sorted.

    With `by`, only moves of this actor are considered.  Moves that create a row are not included.
    """
    states = {
        m.source
        for m in MOVES
        if m.axis is axis and m.target == target and not _is_creation(m) and by in (None, m.by)
    }
    return tuple(sorted(states))


def next_moves(axis: Axis, source: int) -> tuple[Move, ...]:
    """Return the moves that a row in this state can make next."""
    return tuple(m for m in MOVES if m.axis is axis and m.source == source and not _is_creation(m))


def check(move: Move) -> None:
    """Raise `IllegalMove` if the law does not contain this move, with this reason and actor."""
    if move not in _LAW:
        msg = f"The law does not contain the move {move}."
        raise IllegalMove(msg)


def _is_creation(move: Move) -> bool:
    return move.source == NOTHING and move.axis in (Axis.RESULT, Axis.WORKUNIT, Axis.RELEASE)


_LAW = frozenset(MOVES)


def _faults(moves: Iterable[Move]) -> list[str]:
    """Return sentences that describe the faults of a table of moves."""
    moves = tuple(moves)
    faults = [f"{m} is listed twice" for m in set(moves) if moves.count(m) > 1]
    owners: dict[tuple[Axis, int, int, Because], set[Actor]] = defaultdict(set)
    reached: dict[Axis, set[int]] = {axis: {int(s) for s in INITIAL[axis]} for axis in Axis}
    for move in moves:
        owners[move.axis, move.source, move.target, move.because].add(move.by)
        reached[move.axis].add(move.target)
    faults += [
        f"{key} has the owners {actors}" for key, actors in owners.items() if len(actors) > 1
    ]
    for axis, states in STATES.items():
        faults += [
            f"{axis.label}: {s.name} is never reached" for s in states if s not in reached[axis]
        ]
    return faults


if _fault_messages := _faults(MOVES):
    raise IllegalMove("The table of moves is faulty: " + "; ".join(_fault_messages))
