"""Compares results, chooses the canonical result and grants credit.

A pass has two parts.  First, one transaction judges the workunits whose validators need only facts
in the database, such as digests.  Then the validators of other apps run in workers (`turns`).
"""

from __future__ import annotations

import logging
from json import loads
from typing import TYPE_CHECKING, Any

from django.db import transaction

from daemons import low_water
from daemons.science.interfaces import BadOptions
from daemons.science.validators import FAST_VALIDATORS, check
from daemons.tally import WHOLE, Shard, Tally
from daemons.validator.comparing import PendingWorkunit, fact_comparison, judge
from daemons.validator.settling import PACKAGE, settle, successes_of
from daemons.validator.turns import PendingApp, take_turns
from scheduler import sql
from scheduler.apps.rules.plugins import UnknownPlugin
from scheduler.sql.low_water import LowWaterMark

if TYPE_CHECKING:
    from datetime import datetime

log = logging.getLogger(__name__)

#: The positions of the columns of `PendingWorkunit` that are read as JSON text.
_JSON = tuple(
    index
    for index, name in enumerate(PendingWorkunit._fields)
    if name in {"outputs", "validator_options"}
)

_queues: dict[Shard, LowWaterMark[int]] = {}
_warned: set[tuple[str, str]] = set()


def run_pass(*, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:
    """Judge the successful results of workunits that need validation.

    Validators that may hang run last.
    """
    quick = _judge_fast(now=now, limit=limit, shard=shard)
    apps = [app for app in _waiting_apps() if app.reason is None]
    slow = take_turns(apps, now=now, limit=limit, shard=shard)
    total = quick + slow
    return Tally(seen=total.seen, counts=total.counts, more=quick.more or slow.more)


def _judge_fast(*, now: datetime, limit: int, shard: Shard) -> Tally:
    with transaction.atomic():
        workunits = _lock(limit=limit, shard=shard)
        if not workunits:
            return Tally()
        # A separate statement: only a snapshot taken after the locks sees all reported results.
        successes = successes_of([workunit.id for workunit in workunits], now=now)
        judged = [
            judge(
                workunit,
                successes.get(workunit.id, ()),
                fact_comparison(workunit, FAST_VALIDATORS[workunit.validator]),
            )
            for workunit in workunits
        ]
        counts = settle(judged, now=now)
    return Tally(seen=len(judged), counts=counts, more=len(judged) >= limit)


def _lock(*, limit: int, shard: Shard) -> list[PendingWorkunit]:
    queue = _queues.setdefault(shard, LowWaterMark(0))
    params = {"validators": list(FAST_VALIDATORS), "limit": limit, **shard.params}
    rows = low_water.read(
        queue,
        lambda after: sql.fetch_rows("lock_unvalidated", {"after_id": after, **params}, PACKAGE),
    )
    if rows:
        # Rows are in ascending order of ids.  A workunit below the mark that needs validation later
        # is found when the queue is read from its head.
        queue.mark = rows[-1][0]
    # Many rows have the same JSON texts, so each text is decoded once.
    decoded = {text: loads(text) for text in {row[index] for row in rows for index in _JSON}}
    return [PendingWorkunit(*_with(decoded, row)) for row in rows]


def _with(decoded: dict[str, Any], row: tuple[Any, ...]) -> tuple[Any, ...]:
    first, second = _JSON
    between = row[first + 1 : second]
    return (*row[:first], decoded[row[first]], *between, decoded[row[second]], *row[second + 1 :])


def _waiting_apps() -> list[PendingApp]:
    """Return apps with workunits to validate in a worker; log each unusable validator once."""
    rows = sql.fetch("read_waiting_apps", {"at_once": list(FAST_VALIDATORS)}, PACKAGE)
    apps = [
        PendingApp(**row, reason=_reason(row["validator"], row["validator_options"]))
        for row in rows
    ]
    unusable = {(app.name, app.validator): app.reason for app in apps if app.reason is not None}
    for app, validator in sorted(unusable.keys() - _warned):
        log.error(
            "unknown_validator",
            extra={
                "app": app,
                "validator": validator,
                "reason": unusable[app, validator],
                "hint": "correct the app or PLUGINS file; `manage.py check_science` checks both",
            },
        )
    _warned.clear()
    _warned.update(unusable)
    return apps


def _reason(validator: str, options: dict[str, object]) -> str | None:
    """Return the reason why a validator cannot be used, or None if it can be used."""
    try:
        check(validator, options)
    except (UnknownPlugin, BadOptions) as error:
        return str(error)
    return None
