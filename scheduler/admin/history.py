"""The timeline of a workunit, and its possible next moves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduler.admin.base import duration_label, tone
from scheduler.lifecycle import (
    NO_RESULT,
    Axis,
    Move,
    ResultState,
    WorkunitState,
    next_moves,
    state_label,
)
from scheduler.models import LedgerEntry, Result, Workunit
from scheduler.work.timeline import describe_move, moves_of

#: Maximum number of moves in a timeline.
MAX_TIMELINE_MOVES = 1000


@dataclass(frozen=True, slots=True)
class Possibility:
    """A move that the law permits from the current state of a workunit or result."""

    subject: str
    axis: str
    source: str
    target: str
    because: str
    by: str


@dataclass(frozen=True, slots=True)
class Event(Possibility):
    """A row of a timeline, which shows one ledger entry."""

    at: datetime
    since_first: str
    target_tone: str


def timeline(
    workunit_id: int, *, result_id: int | None = None, names: dict[int, str] | None = None
) -> list[Event]:
    """Return the first moves of a workunit, or of one of its results, oldest first.

    The list has at most `MAX_TIMELINE_MOVES` moves.  `names` maps ids of results to titles.  A
    result without a title is shown by its id.
    """
    rows = moves_of(workunit_id, result_id=result_id, at_most=MAX_TIMELINE_MOVES)
    return [_event(row, rows[0].at, names or {}) for row in rows]


def _event(entry: LedgerEntry, first_at: datetime, names: dict[int, str]) -> Event:
    move = describe_move(entry)
    subject = "workunit"
    if entry.result_id is not None:
        subject = names.get(entry.result_id, f"result #{entry.result_id}")
    elapsed: timedelta = entry.at - first_at
    since = "" if elapsed < timedelta(seconds=1) else f"+{duration_label(elapsed)}"
    return Event(subject, *move, at=entry.at, since_first=since, target_tone=tone(move.target))


# Possible next moves


def workunit_state(workunit: Workunit) -> WorkunitState:
    """Return the state of a workunit's answer: OPEN, CANONICAL, FAILED or COMPLETE."""
    if workunit.canonical_result_id == NO_RESULT:
        return WorkunitState.COMPLETE
    if workunit.canonical_result_id is not None:
        return WorkunitState.CANONICAL
    return WorkunitState.FAILED if workunit.error_mask else WorkunitState.OPEN


def result_state(result: Result) -> ResultState:
    return ResultState(10 * result.server_state + result.outcome)


def possibilities(workunit: Workunit, results: Iterable[Result]) -> list[Possibility]:
    """Return the moves that the law permits for a workunit and its results in their states."""
    moves = _on(
        "workunit",
        (Axis.WORKUNIT, workunit_state(workunit)),
        (Axis.RELEASE, workunit.release_state),
        (Axis.ASSIMILATION, workunit.assimilate_state),
        (Axis.WORKUNIT_FILES, workunit.file_delete_state),
    )
    for result in results:
        moves += result_possibilities(result)
    return moves


def result_title(result: Result) -> str:
    """Return the title of a result, which contains the number of the attempt."""
    return f"result {result.attempt}"


def result_possibilities(result: Result) -> list[Possibility]:
    """Return the moves that the law permits from the current state of a result."""
    state = result_state(result)
    axes: list[tuple[Axis, int]] = [(Axis.RESULT, state)]
    # Only successes are validated, and only finished results have files to delete.
    if state is ResultState.SUCCESS:
        axes.append((Axis.VALIDATION, result.validate_state))
    if state.server_state is ResultState.SUCCESS.server_state:
        axes.append((Axis.RESULT_FILES, result.file_delete_state))
    return _on(result_title(result), *axes)


def _on(subject: str, *axes: tuple[Axis, int]) -> list[Possibility]:
    return [_possibility(subject, move) for axis, state in axes for move in next_moves(axis, state)]


def _possibility(subject: str, move: Move) -> Possibility:
    return Possibility(
        subject=subject,
        axis=move.axis.label,
        source=state_label(move.axis, move.source),
        target=state_label(move.axis, move.target),
        because=move.because.label,
        by=move.by.label,
    )
