"""Remembers which hosts were refused which workunits, for reasons that last."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from scheduler import sql
from scheduler.facts.handout import Work
from scheduler.facts.hosts import Candidate, HostFacts

#: So many refusals of one RPC are remembered, with their workunits.
MOST_REMEMBERED = 16
#: The same refusal of the same host is written at most so often.
AGAIN_AFTER = timedelta(hours=1)


def remember(works: Iterable[tuple[HostFacts, Work]], *, now: datetime) -> None:
    """Keep, for those who ask why a result finds no host, who was refused it and why."""
    rows = [(host, *row) for host, work in works for row in _lasting(work)]
    if not rows:
        return
    sql.execute(
        "remember_refusals",
        {
            "workunit_ids": [candidate.workunit_id for _host, candidate, _reason, _text in rows],
            "host_ids": [host.id for host, _candidate, _reason, _text in rows],
            "app_ids": [candidate.app_id for _host, candidate, _reason, _text in rows],
            "reasons": [reason for _host, _candidate, reason, _text in rows],
            "sentences": [text for _host, _candidate, _reason, text in rows],
            "again_before": now - AGAIN_AFTER,
            "now": now,
        },
    )


def _lasting(work: Work) -> list[tuple[Candidate, str, str]]:
    """One refusal of each workunit, the last one, and not too many."""
    kept = {candidate.workunit_id: row for row in work.lasting for candidate in row[:1]}
    return list(kept.values())[:MOST_REMEMBERED]
