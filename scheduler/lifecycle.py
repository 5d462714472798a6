"""The law of states: every state and every legal move, in one table [pure].

Two rules.  Everything that decides whether a state may change stands in this file; and this file
knows no table, no clock and no caller.  Choices, CHECK constraints, ``WHERE`` guards, the guard
trigger, ``docs/lifecycle.md`` and the timeline are derived from it.

Theory of operation.  A workunit and its results move along seven *axes*, each a small state machine
of its own; a row's whole state is its position on each axis.  A `Move` names the axis, the state
left, the state reached, the reason and the actor.  No two actors own the same move.  Numeric codes
of the columns are BOINC's, so that its tools and habits carry over.

The ``result`` axis folds BOINC's pair (server_state, outcome) into one code, ``10 * server_state +
outcome``: an outcome means something only when the server state is OVER.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, IntFlag


class ServerState(IntEnum):
    """Where a result is, for the server (BOINC's ``server_state``)."""

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
    """Server state and outcome in one: ``10 * server_state + outcome``."""

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
        """The column ``server_state`` of this state."""
        return ServerState(self.value // 10)

    @property
    def outcome(self) -> Outcome:
        """The column ``outcome`` of this state."""
        return Outcome(self.value % 10)


class ClientState(IntEnum):
    """Where the client was with a result when it reported it (PROTOCOL 0.3)."""

    NEW = 0
    FILES_DOWNLOADING = 1
    FILES_DOWNLOADED = 2
    COMPUTE_ERROR = 3
    FILES_UPLOADING = 4
    FILES_UPLOADED = 5
    ABORTED = 6
    UPLOAD_FAILED = 7


class ValidateState(IntEnum):
    """What is known of a result's correctness."""

    INIT = 0
    VALID = 1
    INVALID = 2
    NO_CHECK = 3
    INCONCLUSIVE = 4
    TOO_LATE = 5


class FileDeleteState(IntEnum):
    """Whether files are still needed: a workunit's inputs, a result's outputs."""

    INIT = 0
    READY = 1
    DONE = 2
    ERROR = 3


class AssimilateState(IntEnum):
    """Whether the science has been handed the finished workunit."""

    INIT = 0
    READY = 1
    DONE = 2


class ReleaseState(IntEnum):
    """Whether a workunit may have results at all."""

    INACTIVE = 1
    HELD = 2
    RELEASED = 3


class WorkunitState(IntEnum):
    """Whether a workunit has its answer (a canonical result) or its reason why not."""

    OPEN = 1
    CANONICAL = 2
    FAILED = 3


class ErrorMask(IntFlag):
    """Why a workunit failed; the first six bits are BOINC's, the others ours."""

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
    """For whom alone a result is; a targeted one is never given to anybody else."""

    EVERYBODY = 0
    HOST = 1
    ACCOUNT = 2
    TEAM = 3


class Axis(IntEnum):
    """The seven small state machines; codes are stored in the ledger."""

    RESULT = 1
    VALIDATION = 2
    RESULT_FILES = 3
    WORKUNIT = 4
    RELEASE = 5
    ASSIMILATION = 6
    WORKUNIT_FILES = 7

    @property
    def label(self) -> str:
        """The axis's name as people read it."""
        return self.name.lower().replace("_", " ")


class Actor(IntEnum):
    """Who makes moves; codes are stored in the ledger."""

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
        """The actor's name, spelled as its module is."""
        return self.name.lower()


class Because(IntEnum):
    """Why a move is made; codes are stored in the ledger and never given to another reason."""

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

    @property
    def label(self) -> str:
        """The reason as people read it."""
        return _REASONS.get(self) or self.name.lower().replace("_", " ")


_REASONS = {
    Because.SENT: "sent to a host",
    Because.RESENT: "lost by the host, sent again",
    Because.REPORTED_ERROR: "reported with an error",
    Because.REPORTED_ERROR_LATE: "reported late with an error",
    Because.AGREES: "agrees with the canonical result",
    Because.DISAGREES: "disagrees with the canonical result",
    Because.OUTPUT_MISSING: "output missing or unreadable",
    Because.TOO_LATE: "came after the files it had to be compared with were deleted",
    Because.REVALIDATION: "to be validated anew, as staff asked",
    Because.BROADCAST: "broadcast to every host",
    Because.NO_AGREEMENT: "answers came, but no two agreed",
    Because.GIVEN_UP: "never taken by the science, and given up by staff",
}

#: The state before the first one: the source of a row's birth.
NOTHING = 0

State = (
    ResultState | ValidateState | FileDeleteState | AssimilateState | ReleaseState | WorkunitState
)

#: The states of each axis, and the one in which a row is born.
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
    """One legal move; `source` is NOTHING (0) for a birth."""

    axis: Axis
    source: int
    target: int
    because: Because
    by: Actor

    def __str__(self) -> str:
        """Say the move in the log's grammar."""
        return (
            f"{self.axis.label}: {state_label(self.axis, self.source)}"
            f"→{state_label(self.axis, self.target)}"
            f' because="{self.because.label}" by={self.by.label}'
        )


R, V, F, A, W = ResultState, ValidateState, FileDeleteState, AssimilateState, WorkunitState
B = Because
_SCHEDULER, _TRANSITIONER, _VALIDATOR = Actor.SCHEDULER, Actor.TRANSITIONER, Actor.VALIDATOR

# fmt: off
_TABLE: tuple[tuple[Axis, int, int, Because, Actor], ...] = (
    # A result: made, sent, reported or given up.
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
    # Its correctness.
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
    # Its output files.
    (Axis.RESULT_FILES, F.INIT,  F.READY, B.NO_LONGER_NEEDED, _TRANSITIONER),
    (Axis.RESULT_FILES, F.READY, F.DONE,  B.DELETED,          Actor.FILE_DELETER),
    (Axis.RESULT_FILES, F.READY, F.ERROR, B.COULD_NOT_DELETE, Actor.FILE_DELETER),
    (Axis.RESULT_FILES, F.ERROR, F.DONE,  B.DELETED,          Actor.FILE_DELETER),
    (Axis.RESULT_FILES, F.DONE,  F.READY, B.UPLOADED_LATE,    _SCHEDULER),
    # A workunit: its answer, or its reason why not.
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
    # Whether it may have results at all.
    (Axis.RELEASE, ReleaseState.INACTIVE, ReleaseState.RELEASED, B.DEPENDENCIES_MET, _TRANSITIONER),
    (Axis.RELEASE, ReleaseState.HELD,     ReleaseState.RELEASED, B.RELEASED,         Actor.STAFF),
    (Axis.RELEASE, ReleaseState.RELEASED, ReleaseState.HELD,     B.HELD,             Actor.STAFF),
    # Handing it to the science.
    (Axis.ASSIMILATION, A.INIT,  A.READY, B.CANONICAL_FOUND, _TRANSITIONER),
    (Axis.ASSIMILATION, A.INIT,  A.READY, B.WORKUNIT_FAILED, _TRANSITIONER),
    (Axis.ASSIMILATION, A.READY, A.INIT,  B.REVALIDATION,    _TRANSITIONER),
    (Axis.ASSIMILATION, A.READY, A.DONE,  B.ASSIMILATED,     Actor.ASSIMILATOR),
    (Axis.ASSIMILATION, A.READY, A.DONE,  B.GIVEN_UP,        Actor.STAFF),
    # Its input files.
    (Axis.WORKUNIT_FILES, F.INIT,  F.READY, B.NO_LONGER_NEEDED, _TRANSITIONER),
    (Axis.WORKUNIT_FILES, F.READY, F.DONE,  B.DELETED,          Actor.FILE_DELETER),
    (Axis.WORKUNIT_FILES, F.READY, F.ERROR, B.COULD_NOT_DELETE, Actor.FILE_DELETER),
    (Axis.WORKUNIT_FILES, F.ERROR, F.DONE,  B.DELETED,          Actor.FILE_DELETER),
)
# fmt: on

MOVES: tuple[Move, ...] = tuple(Move(*row) for row in _TABLE)

#: Which reason puts which bit into a workunit's ``error_mask``.
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
    """The law does not name this move. Hint: see docs/lifecycle.md for the moves that it names."""


def state_label(axis: Axis, code: int) -> str:
    """Name a state as people read it; ``nothing`` for the source of a birth.

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
    """Every legal (source, target) of an axis, births excluded, sorted."""
    return tuple(
        sorted({(m.source, m.target) for m in MOVES if m.axis is axis and not _is_birth(m)})
    )


def sources(axis: Axis, target: int, by: Actor | None = None) -> tuple[int, ...]:
    """The states from which `target` may be reached (by one actor, if named), sorted."""
    found = {
        m.source
        for m in MOVES
        if m.axis is axis and m.target == target and not _is_birth(m) and by in (None, m.by)
    }
    return tuple(sorted(found))


def next_moves(axis: Axis, source: int) -> tuple[Move, ...]:
    """What can happen next to a row in this state."""
    return tuple(m for m in MOVES if m.axis is axis and m.source == source and not _is_birth(m))


def check(move: Move) -> None:
    """Raise `IllegalMove` if the law does not name exactly this move."""
    if move not in _LAW:
        msg = f"The law does not name the move {move}."
        raise IllegalMove(msg)


def _is_birth(move: Move) -> bool:
    return move.source == NOTHING and move.axis in (Axis.RESULT, Axis.WORKUNIT, Axis.RELEASE)


_LAW = frozenset(MOVES)


def _faults(moves: Iterable[Move]) -> list[str]:
    """What is wrong with the table itself: found at import, not in production."""
    moves = tuple(moves)
    faults = [f"{m} stands twice" for m in set(moves) if moves.count(m) > 1]
    owners: dict[tuple[Axis, int, int, Because], set[Actor]] = defaultdict(set)
    reached: dict[Axis, set[int]] = {axis: {int(s) for s in INITIAL[axis]} for axis in Axis}
    for move in moves:
        owners[move.axis, move.source, move.target, move.because].add(move.by)
        reached[move.axis].add(move.target)
    faults += [f"{key} has the owners {who}" for key, who in owners.items() if len(who) > 1]
    for axis, states in STATES.items():
        faults += [
            f"{axis.label}: {s.name} is never reached" for s in states if s not in reached[axis]
        ]
    return faults


if _found := _faults(MOVES):
    raise IllegalMove("The table of moves is faulty: " + "; ".join(_found))
