"""Remembers which hosts were refused which workunits, for reasons that last."""

from __future__ import annotations

from datetime import datetime, timedelta

from scheduler import sql
from scheduler.facts.handout import Work
from scheduler.facts.hosts import HostFacts

#: So many refusals of one RPC are remembered, with their workunits.
MOST_REMEMBERED = 16
#: The same refusal of the same host is written at most so often.
AGAIN_AFTER = timedelta(hours=1)


def remember(work: Work, host: HostFacts, *, now: datetime) -> None:
    """Keep, for those who ask why a result finds no host, who was refused it and why."""
    kept = {candidate.workunit_id: row for row in work.lasting for candidate in row[:1]}
    rows = list(kept.values())[:MOST_REMEMBERED]
    sql.execute(
        "remember_refusals",
        {
            "workunit_ids": [candidate.workunit_id for candidate, _reason, _text in rows],
            "app_ids": [candidate.app_id for candidate, _reason, _text in rows],
            "reasons": [reason for _candidate, reason, _text in rows],
            "sentences": [text for _candidate, _reason, text in rows],
            "host_id": host.id,
            "again_before": now - AGAIN_AFTER,
            "now": now,
        },
    )
