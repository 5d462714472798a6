"""Writes down what was judged, in the transaction that holds the locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemons.result_moves import ResultMoves
from daemons.validator.comparing import Success
from daemons.validator.paying import pay_and_learn
from daemons.validator.worth import appraise
from scheduler import sql
from scheduler.lifecycle import (
    Actor,
    Axis,
    Because,
    Move,
    ResultState,
    ValidateState,
    WorkunitState,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from decimal import Decimal

    from daemons.validator.comparing import Judged

PACKAGE = "daemons.sql"

_USABLE = [
    int(state) for state in (ValidateState.INIT, ValidateState.INCONCLUSIVE, ValidateState.VALID)
]


class StaleValidation(RuntimeError):
    """A row changed although its workunit was locked: somebody moves results without that lock.

    Hint: find the writer in the ledger; the pass was rolled back and will be made again.
    """


def successes_of(
    ids: Sequence[int], *, now: datetime, usable: Iterable[int] = _USABLE
) -> Mapping[int, list[Success]]:
    """The successes of workunits that are in `usable` states of validation, by workunit."""
    params = {
        "workunit_ids": sql.array(ids),
        "success": int(ResultState.SUCCESS),
        "usable": sql.array(usable),
        "now": now,
    }
    found: dict[int, list[Success]] = {}
    last = None
    for *facts, position, name, digest in sql.fetch_rows("read_successes", params, PACKAGE):
        if last is None or last.id != facts[0]:
            last = Success(*facts, [], [], [])  # type: ignore[call-arg]
            found.setdefault(last.workunit_id, []).append(last)
        if position is not None:
            last.positions.append(position)
            last.names.append(name)
            last.digests.append(digest)
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
    moves = ResultMoves()
    numbers: dict[tuple[Move, ...], int] = {}
    for one in judged:
        moves.add(_moving(one, moves, numbers))
    if missed := moves.write(by=Actor.VALIDATOR, now=now):
        msg = f"Results {sorted(missed)[:10]} are no longer in the states that were judged."
        raise StaleValidation(msg)


def _moving(
    one: Judged, moves: ResultMoves, numbers: dict[tuple[Move, ...], int]
) -> Iterator[tuple[int, int, int, Decimal | None]]:
    for success, step in one.moves:
        number = numbers.get(step) or numbers.setdefault(step, moves.step(step))
        # What was granted once stays, whatever is said of the result later.
        agrees = any(move.because is Because.AGREES for move in step)
        yield (
            one.workunit.id,
            success.id,
            number,
            success.granted_credit or one.pay if agrees else None,
        )


def _mark_outliers(judged: Sequence[Judged]) -> None:
    ids = [success.id for one in judged for success in one.valid if success.runtime_outlier]
    if ids:
        sql.execute("mark_outliers", {"ids": sorted(ids)}, PACKAGE)


def _settle_workunits(judged: Sequence[Judged], *, now: datetime, is_leased: bool) -> None:
    settled = sql.fetch(
        "settle_validated",
        {
            "now": now,
            "ids": sql.array(one.workunit.id for one in judged),
            "canonical_ids": sql.array(one.canonical for one in judged),
            "credits": sql.array(one.pay for one in judged),
            "unfinished": sql.array(one.unfinished for one in judged),
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
            any(step[0].target == ValidateState.INCONCLUSIVE for _, step in one.moves)
            and one.canonical is None
            for one in judged
        ),
        "results valid": sum(len(one.valid) for one in judged),
        "results invalid": sum(len(one.refused) for one in judged),
        "results paid": paid,
        "looked at in vain": sum(not one.moves for one in judged),
    }
