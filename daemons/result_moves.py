"""Moves thousands of results of locked workunits with one statement.

Nearly all results of a pass make the same moves.  So each combination of moves on up to three axes
(a *step*) is described once and numbered.  The statement gets the result ids and step numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler import sql
from scheduler.lifecycle import Axis

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from decimal import Decimal

    from scheduler.lifecycle import Actor, Move
    from scheduler.results.rules.verdicts import ResultMove

PACKAGE = "daemons.sql"


class ResultMoves:
    """Collects moves of results.  Only `write` changes the database."""

    def __init__(self) -> None:
        #: For each step, the states before and after it; the latter is None if it does not change.
        self._steps: list[dict[Axis, tuple[int, int | None]]] = []
        self._moves: list[tuple[int, int, int, int]] = []
        #: For each step, the numbers of its moves, counted from 1.
        self._moves_of: list[range] = []
        self._rows: list[tuple[int, int, int, Decimal | None]] = []

    def step(
        self, moves: Sequence[Move | ResultMove], position: Mapping[Axis, int] | None = None
    ) -> int:
        """Add a step of these moves and return its number, counted from 1.

        The ledger records the moves in this order.  `position` has the state on each axis that was
        judged: a result that has left one of these states is not moved, also if the step does not
        change this state.
        """
        step: dict[Axis, tuple[int, int | None]] = {
            axis: (state, None) for axis, state in (position or {}).items()
        }
        step.update({move.axis: (int(move.source), int(move.target)) for move in moves})
        self._steps.append(step)
        first = len(self._moves) + 1
        self._moves += [
            (move.axis.value, int(move.source), int(move.target), move.because.value)
            for move in moves
        ]
        self._moves_of.append(range(first, len(self._moves) + 1))
        return len(self._steps)

    def add(self, rows: Iterable[tuple[int, int, int, Decimal | None]]) -> None:
        """Add results to move.

        Each row is (workunit id, result id, step number, granted credit or None).
        """
        self._rows += rows

    def write(self, *, by: Actor, now: datetime) -> set[int]:
        """Make the moves; return the ids of results that were no longer in the expected states.

        If it returns any id, the caller must roll back, because the ledger contains all moves.
        """
        if not self._rows:
            return set()
        moving = [
            (workunit_id, result_id, move)
            for workunit_id, result_id, number, _ in self._rows
            for move in self._moves_of[number - 1]
        ]
        result_ids = [row[1] for row in self._rows]
        params = {
            "now": now,
            "by": by.value,
            "result_ids": sql.array(result_ids),
            "numbers": sql.array(row[2] for row in self._rows),
            "amounts": sql.array(row[3] for row in self._rows),
            **self._step_params(),
            "move_workunit_ids": sql.array(move[0] for move in moving),
            "move_result_ids": sql.array(move[1] for move in moving),
            "move_numbers": sql.array(move[2] for move in moving),
            "move_axes": sql.array(move[0] for move in self._moves),
            "move_sources": sql.array(move[1] for move in self._moves),
            "move_targets": sql.array(move[2] for move in self._moves),
            "move_becauses": sql.array(move[3] for move in self._moves),
        }
        moved = sql.fetch_rows("move_results", params, PACKAGE)
        return (
            set(result_ids) - {id_ for (id_,) in moved} if len(moved) < len(result_ids) else set()
        )

    def _step_params(self) -> dict[str, str]:
        params = {}
        for axis, (was, becomes) in {
            Axis.RESULT: ("was", "becomes"),
            Axis.VALIDATION: ("was_validated", "validated"),
            Axis.RESULT_FILES: ("were_files", "files"),
        }.items():
            params[was] = sql.array(step.get(axis, (None, None))[0] for step in self._steps)
            params[becomes] = sql.array(step.get(axis, (None, None))[1] for step in self._steps)
        return params
