"""Writes down what was judged, in the transaction that holds the locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemons.validator.comparing import Success
from daemons.validator.paying import pay_and_learn
from daemons.validator.worth import appraise
from scheduler import sql
from scheduler.lifecycle import (
    Actor,
    Axis,
    Because,
    ResultState,
    ValidateState,
    WorkunitState,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from daemons.validator.comparing import Judged

PACKAGE = "daemons.sql"

_USABLE = [
    int(state) for state in (ValidateState.INIT, ValidateState.INCONCLUSIVE, ValidateState.VALID)
]


class StaleValidation(RuntimeError):
    """A row changed although its workunit was locked: somebody moves results without that lock.

    Hint: find the writer in the ledger; the pass was rolled back and will be made again.
    """


def successes_of(ids: Sequence[int], *, now: datetime) -> Mapping[int, list[Success]]:
    """The usable successes of workunits, by workunit."""
    found: dict[int, list[Success]] = {}
    params = {"workunit_ids": ids, "success": int(ResultState.SUCCESS), "usable": _USABLE}
    for success in sql.fetch_into(Success, "read_successes", {**params, "now": now}, PACKAGE):
        found.setdefault(success.workunit_id, []).append(success)
    return found


def settle(judged: Sequence[Judged], *, now: datetime, is_leased: bool = False) -> dict[str, int]:
    """Write it all down; what was done to how many, in words.

    With `is_leased` the workunits' leases end.  Raises `StaleValidation`.
    """
    judged = appraise(judged)
    _move_results(judged, now=now)
    _mark_outliers(judged)
    _settle_workunits(judged, now=now, is_leased=is_leased)
    return _counts(judged, paid=pay_and_learn(judged, now=now))


def _move_results(judged: Sequence[Judged], *, now: datetime) -> None:
    moves = [(one, success, move) for one in judged for success, move in one.moves]
    if not moves:
        return
    moved = sql.fetch(
        "move_results",
        {
            "now": now,
            "by": Actor.VALIDATOR.value,
            "axis_result": Axis.RESULT.value,
            "axis_validation": Axis.VALIDATION.value,
            "axis_files": Axis.RESULT_FILES.value,
            "workunit_ids": [one.workunit.id for one, _, _ in moves],
            "result_ids": [success.id for _, success, _ in moves],
            "axes": [move.axis.value for _, _, move in moves],
            "sources": [int(move.source) for _, _, move in moves],
            "targets": [int(move.target) for _, _, move in moves],
            "becauses": [move.because.value for _, _, move in moves],
            # What was granted once stays, whatever is said of the result later.
            "amounts": [
                (success.granted_credit or one.pay) if move.because is Because.AGREES else None
                for one, success, move in moves
            ],
        },
        PACKAGE,
    )
    if missed := {success.id for _, success, _ in moves} - {row["id"] for row in moved}:
        msg = f"Results {sorted(missed)[:10]} are no longer in the states that were judged."
        raise StaleValidation(msg)


def _mark_outliers(judged: Sequence[Judged]) -> None:
    ids = [success.id for one in judged for success in one.valid if success.runtime_outlier]
    if ids:
        sql.execute("mark_outliers", {"ids": sorted(ids)}, PACKAGE)


def _settle_workunits(judged: Sequence[Judged], *, now: datetime, is_leased: bool) -> None:
    settled = sql.fetch(
        "settle_validated",
        {
            "now": now,
            "ids": [one.workunit.id for one in judged],
            "canonical_ids": [one.canonical for one in judged],
            "credits": [one.pay for one in judged],
            "unfinished": [one.unfinished for one in judged],
            "is_leased": is_leased,
            "axis": Axis.WORKUNIT.value,
            "source": int(WorkunitState.OPEN),
            "target": int(WorkunitState.CANONICAL),
            "because": Because.AGREES.value,
            "by": Actor.VALIDATOR.value,
        },
        PACKAGE,
    )
    if missed := {one.workunit.id for one in judged} - {row["id"] for row in settled}:
        msg = f"Workunits {sorted(missed)[:10]} are no longer in the state that was judged."
        raise StaleValidation(msg)


def _counts(judged: Sequence[Judged], *, paid: int) -> dict[str, int]:
    return {
        "with a canonical result": sum(one.canonical is not None for one in judged),
        "inconclusive": sum(
            any(move.target == ValidateState.INCONCLUSIVE for _, move in one.moves)
            and one.canonical is None
            for one in judged
        ),
        "results valid": sum(len(one.valid) for one in judged),
        "results invalid": sum(len(one.refused) for one in judged),
        "results paid": paid,
        "looked at in vain": sum(not one.moves for one in judged),
    }
