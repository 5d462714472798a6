"""Compares results, chooses the canonical one, marks the others, grants credit.

A pass has two parts.  What can be judged by facts of our tables, such as digests, is one
transaction.  Then each app whose validator is science of its own gets a turn: see `turns`.
"""

from __future__ import annotations

import logging
from dataclasses import fields
from json import loads
from typing import TYPE_CHECKING, Any

from django.db import transaction

from daemons.low_water import LowWater
from daemons.science.interfaces import BadOptions
from daemons.science.validators import AT_ONCE, UnknownValidator, check
from daemons.tally import WHOLE, Shard, Tally
from daemons.validator.comparing import Asking, at_once, judge
from daemons.validator.settling import PACKAGE, settle, successes_of
from daemons.validator.turns import Waiting, take_turns
from scheduler import sql

if TYPE_CHECKING:
    from datetime import datetime

log = logging.getLogger(__name__)

#: Which facts of a workunit that asks come as JSON.
_JSON = tuple(
    place
    for place, fact in enumerate(fields(Asking))
    if fact.name in {"outputs", "validator_options"}
)

_queues: dict[Shard, LowWater[int]] = {}
_warned: set[tuple[str, str]] = set()


def run_pass(*, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:
    """Judge the successes of workunits that ask for it: what is quick before what may hang."""
    quick = _judge_at_once(now=now, limit=limit, shard=shard)
    apps = [app for app in _waiting_apps() if app.reason is None]
    slow = take_turns(apps, now=now, limit=limit, shard=shard)
    total = quick + slow
    return Tally(seen=total.seen, counts=total.counts, more=quick.more or slow.more)


def _judge_at_once(*, now: datetime, limit: int, shard: Shard) -> Tally:
    with transaction.atomic():
        workunits = _lock(limit=limit, shard=shard)
        if not workunits:
            return Tally()
        # A statement of its own: only a snapshot taken after the locks sees what was reported.
        successes = successes_of([workunit.id for workunit in workunits], now=now)
        judged = [
            judge(
                workunit,
                successes.get(workunit.id, ()),
                at_once(workunit, AT_ONCE[workunit.validator]),
            )
            for workunit in workunits
        ]
        counts = settle(judged, now=now)
    return Tally(seen=len(judged), counts=counts, more=len(judged) >= limit)


def _lock(*, limit: int, shard: Shard) -> list[Asking]:
    queue = _queues.setdefault(shard, LowWater(0))
    share = {"limit": limit, "shard_count": shard.count, "shard_index": shard.index}
    rows = queue.read(
        lambda after: sql.fetch_rows(
            "lock_unvalidated",
            {"after_id": after, "validators": list(AT_ONCE), **share},
            PACKAGE,
        )
    )
    if rows:
        # They came in ascending id; what asks for it behind our back is seen from the head.
        queue.mark = rows[-1][0]
    # What many have in common comes as text, and is decoded once.
    decoded = {text: loads(text) for text in {row[place] for row in rows for place in _JSON}}
    return [Asking(*_with(decoded, row)) for row in rows]


def _with(decoded: dict[str, Any], row: tuple[Any, ...]) -> tuple[Any, ...]:
    one, two = _JSON
    between = row[one + 1 : two]
    return (*row[:one], decoded[row[one]], *between, decoded[row[two]], *row[two + 1 :])


def _waiting_apps() -> list[Waiting]:
    """Apps that wait for science; those that wait in vain are said once per process."""
    found = sql.fetch("read_waiting_apps", {"at_once": list(AT_ONCE)}, PACKAGE)
    apps = [
        Waiting(**row, reason=_reason(row["validator"], row["validator_options"])) for row in found
    ]
    in_vain = {(app.name, app.validator): app.reason for app in apps if app.reason is not None}
    for app, validator in sorted(in_vain.keys() - _warned):
        log.error(
            "unknown validator",
            extra={
                "app": app,
                "validator": validator,
                "reason": in_vain[app, validator],
                "hint": "correct the app or PLUGINS file; `manage.py check_science` checks both",
            },
        )
    _warned.clear()
    _warned.update(in_vain)
    return apps


def _reason(validator: str, options: dict[str, object]) -> str | None:
    """Why a validator cannot judge anything; None if it may."""
    try:
        check(validator, options)
    except (UnknownValidator, BadOptions) as error:
        return str(error)
    return None
