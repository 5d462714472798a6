"""Reads: how much work there is in which state, counted, purged work included.

Small tables are counted for every reader.  A count of large tables is shared by all processes of
`VAR_DIR` for some seconds, at most `MAX_KEPT`: one process counts again while the others go on
with the last count.  Estimates of the planner are never used: they are as old as the last ANALYZE.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection, transaction

from scheduler import sql, storage
from scheduler.lifecycle import Outcome, ServerState

#: Tables up to this size in all are counted for every reader, in some tens of milliseconds.
SMALL_NBYTES = 64 * 1024 * 1024
#: A count of large tables serves for a second for each of so many bytes: counting then takes a few
#: percent of one CPU, however many read it.
NBYTES_PER_SECOND = 16 * 1024 * 1024
#: A count serves no longer than this.
MAX_KEPT: Final = timedelta(seconds=30)
#: An older count is shown to nobody, also while another process counts again.
MAX_AGE: Final = timedelta(seconds=60)
#: A chore of the housekeeper that was not done for so long is late: the longest interval is a day.
LATE_CHORE: Final = timedelta(days=2)
#: The file of the last count of large tables, in `VAR_DIR`.
_NOTICE: Final = "run/counts"
_LOCK: Final = "count all work"


@dataclass(frozen=True, slots=True)
class Count:
    """A number of rows; `exact` is False if it was counted a while before, at most a minute."""

    value: int
    exact: bool = True

    @property
    def label(self) -> str:
        """The number as people read it.

        >>> Count(12345).label
        '12,345'
        """
        return f"{self.value:,}"


@dataclass(frozen=True, slots=True)
class AppCounts:
    """How many workunits of an app are where; `done` and `failed` include purged ones."""

    in_progress: int
    waiting_for_validation: int
    waiting_for_assimilation: int
    waiting_for_deletion: int
    finished: int
    done: int
    failed: int


@dataclass(frozen=True, slots=True)
class Counts:
    """One count of everything, at `read_at`.

    `apps` has workunits by the app's name, `results` and `outcomes` the number by lower-case name.
    `waiting` is the number of rows before a daemon, and `oldest` when the first became due.
    """

    read_at: datetime
    kept_seconds: float
    apps: Mapping[str, AppCounts]
    results: Mapping[str, int]
    outcomes: Mapping[str, int]
    people: Mapping[str, int]
    waiting: Mapping[str, int]
    deletable_outputs: int
    oldest: Mapping[str, datetime | None]

    @property
    def workunits(self) -> dict[str, int]:
        """All workunits by the five stations of their lives, and the failed, counted beside."""
        names = (*STATIONS, "failed")
        return {name: sum(getattr(app, name) for app in self.apps.values()) for name in names}

    def serves(self, now: datetime) -> bool:
        """Whether it need not be counted again at this moment."""
        return abs(now - self.read_at) <= timedelta(seconds=self.kept_seconds)

    def may_be_shown(self, now: datetime) -> bool:
        """Whether it may be shown while another process counts."""
        return abs(now - self.read_at) <= MAX_AGE


#: Where a workunit is: in exactly one of these; purged ones are finished.
STATIONS: Final = (
    "in_progress",
    "waiting_for_validation",
    "waiting_for_assimilation",
    "waiting_for_deletion",
    "finished",
)


def current(*, now: datetime) -> Counts:
    """Count everything, or return the shared count of large tables, at most a minute old."""
    row = sql.fetch_one("health/read_counted_nbytes", {}) or {}
    nbytes = int(row["nbytes"])
    if nbytes <= SMALL_NBYTES:
        return count(now=now, nbytes=0)
    stored = _stored()
    if stored is not None and stored.serves(now):
        return stored
    with transaction.atomic():
        if not try_lock():
            if stored is not None and stored.may_be_shown(now):
                return stored
            _wait_for_lock()
            stored = _stored()
            if stored is not None and stored.may_be_shown(now):
                return stored
        counted = count(now=now, nbytes=nbytes)
        # While the lock is held: whoever waits for it finds this count.
        store(counted)
    return counted


def try_lock() -> bool:
    """Become the process that counts, until the end of the transaction; False if another is."""
    return _lock("pg_try_advisory_xact_lock") is True


def _wait_for_lock() -> None:
    _lock("pg_advisory_xact_lock")


def _lock(function: str) -> object:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(hashtextextended(%s, 0))", [_LOCK])
        row = cursor.fetchone()
    return row[0] if row else None


# Counting


def count(*, now: datetime, nbytes: int) -> Counts:
    """Count everything in three statements; `nbytes` of tables decide how long it serves."""
    workunits = sql.fetch("health/count_workunits", {"now": now})
    results = sql.fetch("health/count_results", {"now": now})
    others = sql.fetch_one("health/count_others", {"late": now - LATE_CHORE}) or {}
    apps = {row["app"]: _app(row) for row in workunits}
    return Counts(
        read_at=now,
        kept_seconds=min(MAX_KEPT.total_seconds(), nbytes / NBYTES_PER_SECOND),
        apps=apps,
        results={
            state.name.lower(): _sum(results, "results", server_state=state)
            for state in ServerState
        },
        outcomes={
            outcome.name.lower(): _sum(results, "results", outcome=outcome)
            for outcome in Outcome
            if outcome is not Outcome.INIT
        },
        people={"accounts": others["accounts"], "hosts": others["hosts"]},
        waiting={
            "transitioner": _sum(workunits, "due"),
            "timeout_checker": _sum(results, "overdue"),
            "validator": sum(app.waiting_for_validation for app in apps.values()),
            "assimilator": sum(app.waiting_for_assimilation for app in apps.values()),
            "trickle_handler": others["trickles"],
            "file_deleter": sum(app.waiting_for_deletion for app in apps.values()),
            "purger": _sum(workunits, "purgeable"),
            "housekeeper": others["late_chores"],
        },
        deletable_outputs=_sum(results, "deletable"),
        oldest={
            "transitioner": _earliest(row["due_since"] for row in workunits),
            "timeout_checker": _earliest(row["overdue_since"] for row in results),
        },
    )


def _app(row: Mapping[str, Any]) -> AppCounts:
    return AppCounts(
        in_progress=row["in_progress"],
        waiting_for_validation=row["waiting_for_validation"],
        waiting_for_assimilation=row["waiting_for_assimilation"],
        waiting_for_deletion=row["waiting_for_deletion"],
        finished=row["purgeable"] + row["purged_done"] + row["purged_failed"],
        done=row["done"] + row["purged_done"],
        failed=row["failed"] + row["purged_failed"],
    )


def _sum(rows: list[dict[str, Any]], column: str, **wanted: int) -> int:
    return sum(
        row[column] for row in rows if all(row[name] == value for name, value in wanted.items())
    )


def _earliest(moments: Iterable[datetime | None]) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


# The shared count of large tables


def store(counted: Counts) -> None:
    """Share a count with all processes of `VAR_DIR`; one that cannot be written is not shared."""
    with contextlib.suppress(OSError):
        storage.put_notice(_NOTICE, asdict(counted))


def forget() -> None:
    """Drop the shared count."""
    storage.put_notice(_NOTICE, None)


def _stored() -> Counts | None:
    """The shared count; None if there is none, or it is that of another version."""
    kept = storage.notice(_NOTICE)
    if kept is None:
        return None
    try:
        return Counts(
            **kept
            | {
                "read_at": datetime.fromisoformat(kept["read_at"]),
                "apps": {name: AppCounts(**app) for name, app in kept["apps"].items()},
                "oldest": {
                    name: moment and datetime.fromisoformat(moment)
                    for name, moment in kept["oldest"].items()
                },
            }
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
