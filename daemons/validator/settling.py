"""Writes verdicts in the transaction that has locked the workunits."""

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
    """A row changed although its workunit was locked, because another writer ignores the lock.

    The pass was rolled back and will be repeated. Hint: find the writer in the ledger.
    """


def successes_of(
    ids: Sequence[int], *, now: datetime, usable: Iterable[int] = _USABLE
) -> Mapping[int, list[Success]]:
    """Return the successful results whose validation state is in `usable`, by workunit id."""
    params = {
        "workunit_ids": sql.array(ids),
        "success": int(ResultState.SUCCESS),
        "usable": sql.array(usable),
        "now": now,
    }
    successes: dict[int, list[Success]] = {}
    last = None
    _, rows = sql.fetch_binary("read_successes", params, PACKAGE)
    for row in rows:
        position, name, digest = row[-3:]
        if last is None or last.id != row[0]:
            last = Success._make((*row[:-3], [], [], []))
            successes.setdefault(last.workunit_id, []).append(last)
        if position is not None:
            last.positions.append(position)
            last.names.append(name)
            last.digests.append(digest)
    return successes


def settle(judged: Sequence[Judged], *, now: datetime, is_leased: bool = False) -> dict[str, int]:
    """Write the verdicts and the credit; return the counts for the `Tally` of the pass.

    If `is_leased` is True, the leases of the workunits are released.  Raises `StaleValidation`.
    """
    judged = appraise(judged)
    _move_results(judged, now=now)
    _mark_outliers(judged)
    _settle_workunits(judged, now=now, is_leased=is_leased)
    return _counts(judged, paid=pay_and_learn(judged, now=now))


def _move_results(judged: Sequence[Judged], *, now: datetime) -> None:
    moves = ResultMoves()
    numbers: dict[tuple[Move, ...], int] = {}
    for entry in judged:
        moves.add(_moving(entry, moves, numbers))
    if missed := moves.write(by=Actor.VALIDATOR, now=now):
        msg = f"Results {sorted(missed)[:10]} are no longer in the states that were judged."
        raise StaleValidation(msg)


def _moving(
    entry: Judged, moves: ResultMoves, numbers: dict[tuple[Move, ...], int]
) -> Iterator[tuple[int, int, int, Decimal | None]]:
    for success, step in entry.moves:
        number = numbers.get(step) or numbers.setdefault(step, moves.step(step))
        # Later verdicts do not change credit that was already granted.
        agrees = any(move.because is Because.AGREES for move in step)
        yield (
            entry.workunit.id,
            success.id,
            number,
            success.granted_credit or entry.pay if agrees else None,
        )


def _mark_outliers(judged: Sequence[Judged]) -> None:
    ids = [success.id for entry in judged for success in entry.valid if success.runtime_outlier]
    if ids:
        sql.execute("mark_outliers", {"ids": sorted(ids)}, PACKAGE)


def _settle_workunits(judged: Sequence[Judged], *, now: datetime, is_leased: bool) -> None:
    params = {
        "now": now,
        "ids": sql.array(entry.workunit.id for entry in judged),
        "canonical_ids": sql.array(entry.canonical for entry in judged),
        "credits": sql.array(entry.pay for entry in judged),
        "unfinished": sql.array(entry.unfinished for entry in judged),
        "is_leased": is_leased,
        "axis": Axis.WORKUNIT.value,
        "source": int(WorkunitState.OPEN),
        "target": int(WorkunitState.CANONICAL),
        "because": Because.AGREES.value,
        "by": Actor.VALIDATOR.value,
    }
    settled = sql.fetch("settle_validated", params, PACKAGE)
    if missed := {entry.workunit.id for entry in judged} - {row["id"] for row in settled}:
        msg = f"Workunits {sorted(missed)[:10]} are no longer in the state that was judged."
        raise StaleValidation(msg)


def _counts(judged: Sequence[Judged], *, paid: int) -> dict[str, int]:
    return {
        "with a canonical result": sum(entry.canonical is not None for entry in judged),
        "inconclusive": sum(
            any(step[0].target == ValidateState.INCONCLUSIVE for _, step in entry.moves)
            and entry.canonical is None
            for entry in judged
        ),
        "results valid": sum(len(entry.valid) for entry in judged),
        "results invalid": sum(len(entry.refused) for entry in judged),
        "results paid": paid,
        "looked at in vain": sum(not entry.moves for entry in judged),
    }
