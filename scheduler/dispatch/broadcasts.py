"""Creates a host's own results of broadcast workunits, in its RPC's transaction."""

from __future__ import annotations

from datetime import datetime

from scheduler import sql
from scheduler.dispatch.facts import HostFacts, Work

#: A host receives at most this many broadcast workunits in one RPC.
MAX_BROADCASTS = 10


def make(work: Work, host: HostFacts, *, now: datetime) -> None:
    """Insert this host's own result of each broadcast workunit of which it has none."""
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
