"""What happened to a workunit and what can happen next, in the law's words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduler.admin.base import duration_label, tone
from scheduler.lifecycle import Axis, Move, ResultState, WorkunitState, next_moves, state_label
from scheduler.models import LedgerEntry, Result, Workunit
from scheduler.work.timeline import describe_move, moves_of

#: As many moves of one workunit are shown.
TIMELINE_AT_MOST = 1000


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a timeline."""

    at: datetime
    since_first: str
    subject: str
    axis: str
    source: str
    target: str
    target_tone: str
    because: str
    by: str


@dataclass(frozen=True, slots=True)
class Possibility:
    """One thing that the law allows to happen next."""

    subject: str
    axis: str
    source: str
    target: str
    because: str
    by: str


def timeline(
    workunit_id: int, *, result_id: int | None = None, names: dict[int, str] | None = None
) -> list[Event]:
    """Read the moves of a workunit (of one of its results, if named), the oldest first.

    `names` says how results are called; others are called by their number.
    """
    rows = moves_of(workunit_id, result_id=result_id, at_most=TIMELINE_AT_MOST)
    return [_event(row, rows[0].at, names or {}) for row in rows]


def _event(entry: LedgerEntry, first_at: datetime, names: dict[int, str]) -> Event:
    axis, source, target, because, by = describe_move(entry)
    subject = "workunit"
    if entry.result_id is not None:
        subject = names.get(entry.result_id, f"result #{entry.result_id}")
    elapsed: timedelta = entry.at - first_at
    since = "" if elapsed < timedelta(seconds=1) else f"+{duration_label(elapsed)}"
    return Event(entry.at, since, subject, axis, source, target, tone(target), because, by)


# What can happen next


def workunit_state(workunit: Workunit) -> WorkunitState:
    """Whether it has its answer, its reason why not, or neither yet."""
    if workunit.canonical_result_id is not None:
        return WorkunitState.CANONICAL
    return WorkunitState.FAILED if workunit.error_mask else WorkunitState.OPEN


def result_state(result: Result) -> ResultState:
    """Server state and outcome in one."""
    return ResultState(10 * result.server_state + result.outcome)


def possibilities(workunit: Workunit, results: Iterable[Result]) -> list[Possibility]:
    """Everything that the law allows to happen next to a workunit and its results."""
    found = _on(
        "workunit",
        (Axis.WORKUNIT, workunit_state(workunit)),
        (Axis.RELEASE, workunit.release_state),
        (Axis.ASSIMILATION, workunit.assimilate_state),
        (Axis.WORKUNIT_FILES, workunit.file_delete_state),
    )
    for result in results:
        found += result_possibilities(result)
    return found


def called(result: Result) -> str:
    """How a result is called on its workunit's page: by its place among the attempts."""
    return f"result {result.attempt}"


def result_possibilities(result: Result) -> list[Possibility]:
    """Everything that the law allows to happen next to a result."""
    state = result_state(result)
    axes: list[tuple[Axis, int]] = [(Axis.RESULT, state)]
    # Only what came back can be judged or deleted.
    if state is ResultState.SUCCESS:
        axes.append((Axis.VALIDATION, result.validate_state))
    if state.server_state is ResultState.SUCCESS.server_state:
        axes.append((Axis.RESULT_FILES, result.file_delete_state))
    return _on(called(result), *axes)


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
