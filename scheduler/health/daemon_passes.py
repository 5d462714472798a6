"""Counts the passes of the daemons in the database, for all processes."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Final

from scheduler import sql
from scheduler.health.facts import PassCounts
from scheduler.models import Heartbeat

_PREFIX: Final = "daemon "


def add(daemon: str, counts: PassCounts, *, now: datetime) -> None:
    """Add the passes of one process to the counts of its daemon; one statement."""
    sql.execute("health/add_passes", {"name": f"{_PREFIX}{daemon}", "now": now, **asdict(counts)})


def read() -> dict[str, PassCounts]:
    """Return the counts of each daemon that has run, since the installation of the project."""
    rows = Heartbeat.objects.filter(name__startswith=_PREFIX)
    return {
        row.name.removeprefix(_PREFIX): PassCounts(
            row.passes, row.failed_passes, row.examined_rows, row.busy_seconds
        )
        for row in rows
    }
