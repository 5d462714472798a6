"""Stores the progress and the resource usage that hosts of the pool report."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from scheduler import sql
from scheduler.pool.claims import ResultUnknown
from scheduler.pool.facts import PoolHost, Usage


def report(pool_host: PoolHost, result_id: int, usage: Usage, *, now: datetime) -> bool:
    """Append a usage sample of a result in progress on the host; return whether it was stored.

    A sample is not stored if the result got samples of all its values in the last second.  No state
    changes and no daemon wakes.
    Raises `ResultUnknown` if the result is not in progress on the host.
    """
    rows = sql.fetch(
        "pool/insert_usage",
        {
            "result_id": result_id,
            "host_id": pool_host.host_id,
            **asdict(usage),
            "now": now,
        },
    )
    if not rows:
        raise ResultUnknown(
            "No such result is in progress on this host. Hint: report usage of claimed results."
        )
    return bool(rows[0]["stored"])
