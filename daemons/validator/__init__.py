"""Compares results, chooses the canonical one, marks the others, grants credit.

One pass is one transaction: the digests of the outputs are facts in our tables, so nothing leaves
the database between reading and settling.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from django.db import transaction

from daemons.science import bitwise
from daemons.tally import WHOLE, Shard, Tally
from daemons.validator.comparing import Asking, Judged, Success, judge
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
    from collections.abc import Sequence
    from datetime import datetime

    from daemons.science.interfaces import Validator

log = logging.getLogger(__name__)

PACKAGE = "daemons.sql"
#: What an app may name as its validator.
VALIDATORS: dict[str, Validator[Any]] = {"bitwise": bitwise}

_USABLE = [
    int(state) for state in (ValidateState.INIT, ValidateState.INCONCLUSIVE, ValidateState.VALID)
]
_warned: set[tuple[str, str]] = set()


class StaleValidation(RuntimeError):
    """A row changed although its workunit was locked: somebody moves results without that lock.

    Hint: find the writer in the ledger; the pass was rolled back and will be made again.
    """


def run_pass(*, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:
    """Judge the successes of workunits that ask for it."""
    with transaction.atomic():
        workunits = sql.fetch_into(
            Asking,
            "lock_unvalidated",
            {
                "limit": limit,
                "shard_count": shard.count,
                "shard_index": shard.index,
                "validators": list(VALIDATORS),
            },
            PACKAGE,
        )
        judged = _judge(workunits, now=now)
        paid = 0
        if judged:
            _move_results(judged, now=now)
            _settle_workunits(judged, now=now)
            paid = pay_and_learn(judged, now=now)
    _warn_of_unknown_validators()
    return Tally(seen=len(judged), counts=_counts(judged, paid), more=len(judged) >= limit)


def _judge(workunits: Sequence[Asking], *, now: datetime) -> list[Judged]:
    if not workunits:
        return []
    successes: dict[int, list[Success]] = {}
    # A statement of its own: only a snapshot taken after the locks sees what was reported before.
    for success in sql.fetch_into(
        Success,
        "read_successes",
        {
            "workunit_ids": [workunit.id for workunit in workunits],
            "success": int(ResultState.SUCCESS),
            "usable": _USABLE,
            "now": now,
        },
        PACKAGE,
    ):
        successes.setdefault(success.workunit_id, []).append(success)
    return appraise(
        [
            judge(workunit, successes.get(workunit.id, ()), VALIDATORS[workunit.validator])
            for workunit in workunits
        ]
    )


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
            "amounts": [
                one.pay if move.because is Because.AGREES else None for one, _, move in moves
            ],
        },
        PACKAGE,
    )
    if missed := {success.id for _, success, _ in moves} - {row["id"] for row in moved}:
        msg = f"Results {sorted(missed)[:10]} are no longer in the states that were judged."
        raise StaleValidation(msg)


def _settle_workunits(judged: Sequence[Judged], *, now: datetime) -> None:
    settled = sql.fetch(
        "settle_validated",
        {
            "now": now,
            "ids": [one.workunit.id for one in judged],
            "canonical_ids": [one.canonical for one in judged],
            "credits": [one.pay for one in judged],
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


def _warn_of_unknown_validators() -> None:
    """Say once per process which apps wait for a validator that does not exist."""
    waiting = {
        (row["name"], row["validator"])
        for row in sql.fetch("read_unknown_validators", {"validators": list(VALIDATORS)}, PACKAGE)
    }
    for app, validator in sorted(waiting - _warned):
        log.error(
            "unknown validator",
            extra={
                "app": app,
                "validator": validator,
                "hint": f"set the app's validator to one of: {', '.join(VALIDATORS)}",
            },
        )
    _warned.clear()
    _warned.update(waiting)


def _counts(judged: Sequence[Judged], paid: int) -> dict[str, int]:
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
