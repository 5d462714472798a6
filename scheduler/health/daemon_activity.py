"""Counts passes of daemons; reads runs of chores and the age of due work."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.utils.module_loading import import_string

from scheduler import sql, storage
from scheduler.health.facts import PassCounts
from scheduler.models import Heartbeat

_PREFIX: Final = "daemon "
_CHORE: Final = "chore "


class ChoreRun(NamedTuple):
    """The last run of a chore: its time, or None and the number of failures in a row."""

    name: str
    began_at: datetime | None
    failures: int


def add_passes(daemon: str, counts: PassCounts, *, now: datetime) -> None:
    """Add the passes of one process to the counts of its daemon; one statement."""
    sql.execute("health/add_passes", {"name": f"{_PREFIX}{daemon}", "now": now, **asdict(counts)})


def passes() -> dict[str, PassCounts]:
    """Return the counts of each daemon that has run, since the installation of the project."""
    rows = Heartbeat.objects.filter(name__startswith=_PREFIX)
    return {
        row.name.removeprefix(_PREFIX): PassCounts(
            row.passes, row.failed_passes, row.examined_rows, row.busy_seconds
        )
        for row in rows
    }


def chores() -> list[ChoreRun]:
    """Return the last run of each chore of the housekeeper; chores that failed come first."""
    rows = Heartbeat.objects.filter(name__startswith=_CHORE)
    return [
        ChoreRun(
            row.name.removeprefix(_CHORE),
            # The time of a chore that failed is changed, so that it is tried again soon.
            None if row.failed_passes else row.seen_at,
            row.failed_passes,
        )
        for row in rows.order_by("-failed_passes", "seen_at", "name")
    ]


def due_since(*, now: datetime) -> dict[str, datetime | None]:
    """Return the time since which the oldest work of each daemon has been due, or None.

    One statement.  The work generator has no queue, so it is left out.  The file deleter has None
    while a backup holds deletions.  Chores of each pass are due at any time, and do not count.
    """
    # By dotted name, because `scheduler` must not import `daemons`.
    all_chores: tuple[Any, ...] = import_string("daemons.housekeeper.CHORES")
    chores = [chore for chore in all_chores if chore.every]
    params = {
        "now": now,
        "purge_after": settings.PROJECT.purge_after,
        "chores": [chore.heartbeat for chore in chores],
        "intervals": [chore.every for chore in chores],
    }
    since = sql.fetch_one("health/read_due_since", params) or {}
    return since | {"file_deleter": None} if storage.are_deletions_held() else since


def lag(due_since: datetime | None, *, now: datetime) -> timedelta | None:
    """Return the time for which work has been due, or None if no work is due."""
    # The process that recorded the time may have a clock that is ahead of this one.
    return None if due_since is None else max(timedelta(0), now - due_since)
