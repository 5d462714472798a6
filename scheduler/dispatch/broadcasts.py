"""Creates a host's results of broadcast workunits in the transaction of its RPC."""

from __future__ import annotations

from datetime import datetime

from scheduler import sql
from scheduler.dispatch.facts import HostFacts, Work

#: The maximum number of broadcast workunits for a host in one RPC.
MAX_BROADCASTS = 10


def make(work: Work, host: HostFacts, *, now: datetime) -> None:
    """Insert a result targeted at this host for each broadcast workunit of which it has none."""
    runnable = {version.app.id for version in work.versions.values() if not version.facts.unfit}
    locked = sql.fetch(
        "dispatch/lock_broadcasts",
        {
            "app_ids": sorted(runnable),
            "host_id": host.id,
            "account_id": host.account_id,
            "team_id": host.team_id or 0,
            "most": MAX_BROADCASTS,
            "now": now,
        },
    )
    if locked:
        sql.execute(
            "dispatch/insert_broadcasts",
            {
                "workunit_ids": [row["id"] for row in locked],
                "host_id": host.id,
                "now": now,
            },
        )
