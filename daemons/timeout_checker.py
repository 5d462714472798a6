"""Gives up on results past their deadline; wakes workunits whose end has come.

The rule fits a ``WHERE``, so reading, judging and writing are one statement.  A lease that ran out
needs nobody: its holder is fenced off by its token, and the next claim takes the row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction

from daemons.tally import WHOLE, Shard, Tally
from scheduler import sql
from scheduler.lifecycle import Actor, AssimilateState, Axis, Because, ResultState, sources

if TYPE_CHECKING:
    from datetime import datetime

PACKAGE = "daemons.sql"


def run_pass(*, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:
    """Give up on overdue results; wake expired workunits."""
    share = {"now": now, "limit": limit, "shard_count": shard.count, "shard_index": shard.index}
    with transaction.atomic():
        late = _time_out(share)
    expired = sql.execute(
        "wake_expired_workunits", {**share, "unfinished": AssimilateState.INIT.value}, PACKAGE
    )
    return Tally(
        noun="results",
        seen=len(late) + expired,
        counts={"timed out": len(late), "workunits expired": expired},
        more=limit in (len(late), expired),
    )


def _time_out(share: dict[str, object]) -> list[dict[str, object]]:
    target = ResultState.NO_REPLY
    late = sql.fetch(
        "time_out_results",
        {
            **share,
            "sources": list(sources(Axis.RESULT, target, Actor.TIMEOUT_CHECKER)),
            "source": int(ResultState.IN_PROGRESS),
            "target": int(target),
            "axis": Axis.RESULT.value,
            "because": Because.DEADLINE_PASSED.value,
            "by": Actor.TIMEOUT_CHECKER.value,
        },
        PACKAGE,
    )
    on_versions = [row for row in late if row["app_version_id"] is not None]
    if on_versions:
        sql.execute(
            "distrust_hosts",
            {
                "host_ids": [row["host_id"] for row in on_versions],
                "app_version_ids": [row["app_version_id"] for row in on_versions],
            },
            PACKAGE,
        )
    return late
