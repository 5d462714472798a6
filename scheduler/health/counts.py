"""Counts work by state, including purged work.

Small tables are counted on every call.  Counts of large tables are cached in `VAR_DIR` for all
processes, for at most `MAX_KEPT`.  While one process counts again, the others return cached
counts that are at most `MAX_AGE` old.  The planner's estimates are not used, because they are as
old as the last ANALYZE.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection, transaction
from django.utils.module_loading import import_string

from scheduler import sql, storage
from scheduler.lifecycle import Outcome, ServerState

#: Tables up to this total size are counted on every call, which takes tens of milliseconds.
SMALL_NBYTES = 64 * 1024 * 1024
#: A count of large tables is valid for one second per this number of bytes, so that counting takes
#: a few percent of one CPU, regardless of the number of readers.
NBYTES_PER_SECOND = 16 * 1024 * 1024
#: Maximum time for which a count is valid.
MAX_KEPT: Final = timedelta(seconds=30)
#: Maximum age of a count that is returned while another process counts again.
MAX_AGE: Final = timedelta(seconds=60)
#: A chore of the housekeeper is late after this time; the longest interval of a chore is a day.
LATE_CHORE: Final = timedelta(days=2)
#: File of the cached count of large tables, in `VAR_DIR`.
_NOTICE: Final = "run/counts"
_LOCK: Final = "count all work"


@dataclass(frozen=True, slots=True)
class Count:
    """A number of rows; `exact` is False for a cached count, which is at most a minute old."""

    value: int
    exact: bool = True

    @property
    def label(self) -> str:
        """The number with thousands separators.

        >>> Count(12345).label
        '12,345'
        """
        return f"{self.value:,}"


@dataclass(frozen=True, slots=True)
class AppCounts:
    """The numbers of an app's workunits by state.

    `finished`, `done` and `failed` include purged workunits.
    """

    in_progress: int
    waiting_for_validation: int
    waiting_for_assimilation: int
    waiting_for_deletion: int
    finished: int
    done: int
    failed: int


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources that results used, in seconds and bytes, without purged results.

    `success_seconds` is the sum of the run times of the successes, and `max_elapsed_seconds` is
    their longest.  The maxima are None without results.
    """

    successes: int = 0
    success_seconds: float = 0.0
    cpu_seconds: float = 0.0
    elapsed_seconds: float = 0.0
    max_elapsed_seconds: float | None = None
    peak_memory_bytes: float | None = None

    @property
    def mean_elapsed_seconds(self) -> float | None:
        """The mean run time of the successes, or None without successes."""
        return self.success_seconds / self.successes if self.successes else None

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            successes=self.successes + other.successes,
            success_seconds=self.success_seconds + other.success_seconds,
            cpu_seconds=self.cpu_seconds + other.cpu_seconds,
            elapsed_seconds=self.elapsed_seconds + other.elapsed_seconds,
            max_elapsed_seconds=_larger(self.max_elapsed_seconds, other.max_elapsed_seconds),
            peak_memory_bytes=_larger(self.peak_memory_bytes, other.peak_memory_bytes),
        )


def _larger(first: float | None, second: float | None) -> float | None:
    return max((value for value in (first, second) if value is not None), default=None)


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of all tables at `read_at`, which are valid for `kept_seconds`.

    `apps` maps app names to counts of workunits.  `results` and `outcomes` map lower-case names to
    numbers of results, including purged results.  `people` has the numbers of accounts and hosts.
    `waiting` maps names of daemons to numbers of due rows.  `deletable_outputs` is the number of
    results whose outputs are marked for deletion.  `resources` maps names of apps with results to
    what the results used.
    """

    read_at: datetime
    kept_seconds: float
    apps: Mapping[str, AppCounts]
    results: Mapping[str, int]
    outcomes: Mapping[str, int]
    people: Mapping[str, int]
    waiting: Mapping[str, int]
    deletable_outputs: int
    resources: Mapping[str, Resources]

    @property
    def workunits(self) -> dict[str, int]:
        """The numbers of workunits by station; `failed` workunits also count at their stations."""
        names = (*STATIONS, "failed")
        return {name: sum(getattr(app, name) for app in self.apps.values()) for name in names}

    def serves(self, now: datetime) -> bool:
        """Return whether the counts are still valid."""
        return abs(now - self.read_at) <= timedelta(seconds=self.kept_seconds)

    def may_be_shown(self, now: datetime) -> bool:
        """Return whether the counts may be shown while another process counts again (`MAX_AGE`)."""
        return abs(now - self.read_at) <= MAX_AGE


#: The stations of a workunit on its way through the daemons.  Each workunit is at exactly one
#: station; purged workunits are finished.
STATIONS: Final = (
    "in_progress",
    "waiting_for_validation",
    "waiting_for_assimilation",
    "waiting_for_deletion",
    "finished",
)


def current(*, now: datetime) -> Counts:
    """Return new counts, or cached counts of up to a minute ago if the tables are large."""
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
        # Stored before the lock is released, so that waiting processes return this count.
        store(counted)
    return counted


def try_lock() -> bool:
    """Take the lock for counting until the transaction ends; return False if it is not free."""
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
    """Count all tables with three statements, or four if an app has a generator.

    `nbytes`, the size of the tables, determines how long the counts are valid.
    """
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
            "work_generator": _due_apps(workunits, now),
            "transitioner": others["woken"],
            "timeout_checker": _sum(results, "overdue") + _sum(workunits, "due"),
            "validator": sum(app.waiting_for_validation for app in apps.values()),
            "assimilator": sum(app.waiting_for_assimilation for app in apps.values()),
            "trickle_handler": others["trickles"],
            "file_deleter": sum(app.waiting_for_deletion for app in apps.values()),
            "purger": _sum(workunits, "purgeable"),
            "housekeeper": others["late_chores"],
        },
        deletable_outputs=_sum(results, "deletable"),
        resources=_resources(results),
    )


def _due_apps(rows: list[dict[str, Any]], now: datetime) -> int:
    """Return the number of apps whose generator is due, from rows of `count_workunits`."""
    if not any(row["has_generator"] for row in rows):
        return 0
    # By dotted name, because `scheduler` must not import `daemons`.
    return int(import_string("daemons.work_generator.count_due_apps")(now=now))


def _resources(rows: list[dict[str, Any]]) -> dict[str, Resources]:
    """Return the resources by app from rows of `count_results`."""
    resources: dict[str, Resources] = {}
    for row in rows:
        if row["app"] is None:  # purged results
            continue
        is_success = row["outcome"] == Outcome.SUCCESS
        used = Resources(
            successes=row["results"] if is_success else 0,
            success_seconds=row["elapsed_seconds"] if is_success else 0.0,
            cpu_seconds=row["cpu_seconds"],
            elapsed_seconds=row["elapsed_seconds"],
            max_elapsed_seconds=row["max_elapsed_seconds"] if is_success else None,
            peak_memory_bytes=row["peak_memory_bytes"],
        )
        resources[row["app"]] = resources.get(row["app"], Resources()) + used
    return resources


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


# The cached count of large tables


def store(counted: Counts) -> None:
    """Cache the counts for all processes with this `VAR_DIR`; ignore write errors."""
    with contextlib.suppress(OSError):
        storage.put_notice(_NOTICE, asdict(counted))


def forget() -> None:
    """Delete the cached counts."""
    storage.put_notice(_NOTICE, None)


def _stored() -> Counts | None:
    """Return the cached counts, or None if they are missing or have another format."""
    kept = storage.notice(_NOTICE)
    if kept is None:
        return None
    try:
        return Counts(
            **kept
            | {
                "read_at": datetime.fromisoformat(kept["read_at"]),
                "apps": {name: AppCounts(**app) for name, app in kept["apps"].items()},
                "resources": {name: Resources(**app) for name, app in kept["resources"].items()},
            }
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
