"""Keeps the figures of `server_status.php?xml=1` in a file that the page reads.

The housekeeper reads the tables, because the counts scan whole tables and the page is public: a
request reads the file only.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from scheduler import sql, storage
from scheduler.health import counts, daemon_activity
from scheduler.health.counts import Counts

#: Time for which the housekeeper keeps the numbers of people and the load of apps.  Reading them
#: scans the tables of accounts, hosts and results.
KEEP: Final = timedelta(minutes=10)
#: Maximum age of figures that are shown; older figures mean that the housekeeper does not run.
MAX_AGE: Final = timedelta(hours=1)
#: Accounts, hosts and results of this time are recent.
_RECENT: Final = timedelta(days=1)
#: A computer of 1 GFLOPS has a recent average credit of 200 (PROTOCOL 9.6).
_CREDIT_PER_GFLOPS: Final = 200
#: The file of the figures, in `VAR_DIR`.
_NOTICE: Final = "run/server_load"


@dataclass(frozen=True, slots=True)
class WorkLoad:
    """Counts of work, and the hours for which the oldest work of the transitioner has been due."""

    unsent: int
    in_progress: int
    waiting_for_validation: int
    waiting_for_assimilation: int
    deletable_workunits: int
    deletable_outputs: int
    transitioner_hours: float


@dataclass(frozen=True, slots=True)
class AppLoad:
    """The results of an app; the run times, in seconds, are None without recent valid results."""

    id: int
    name: str
    unsent: int
    in_progress: int
    avg_seconds: float | None
    min_seconds: float | None
    max_seconds: float | None
    users: int | None


@dataclass(frozen=True, slots=True)
class PeopleLoad:
    """Numbers of accounts and hosts, the speed in GFLOPS, and the load of each app at `read_at`."""

    read_at: datetime
    users_with_recent_credit: int
    users_with_credit: int
    users_registered: int
    hosts_with_recent_credit: int
    hosts_with_credit: int
    hosts_registered: int
    gflops: float
    apps: tuple[AppLoad, ...]


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """The figures of the page; those of `work` were counted at `read_at`."""

    read_at: datetime
    work: WorkLoad
    people: PeopleLoad


def current(*, now: datetime) -> ServerLoad | None:
    """Return the stored figures; None if they are missing or older than `MAX_AGE`.

    Reads one file and no table.
    """
    load = _stored()
    return load if load is not None and abs(now - load.read_at) <= MAX_AGE else None


def store(*, now: datetime) -> None:
    """Count the work and store the figures; read those of people again if they are `KEEP` old."""
    stored = _stored()
    is_fresh = stored is not None and abs(now - stored.people.read_at) < KEEP
    people = stored.people if stored is not None and is_fresh else _read_people(now=now)
    counted = counts.current(now=now)
    woken_at = daemon_activity.due_since(now=now)["transitioner"]
    backlog = daemon_activity.lag(woken_at, now=now) or timedelta(0)
    load = ServerLoad(read_at=counted.read_at, work=_work(counted, backlog), people=people)
    storage.put_notice(_NOTICE, asdict(load))


def forget() -> None:
    """Delete the stored figures."""
    storage.put_notice(_NOTICE, None)


def _work(counted: Counts, backlog: timedelta) -> WorkLoad:
    return WorkLoad(
        unsent=counted.results["unsent"],
        in_progress=counted.results["in_progress"],
        waiting_for_validation=counted.waiting["validator"],
        waiting_for_assimilation=counted.waiting["assimilator"],
        deletable_workunits=counted.waiting["file_deleter"],
        deletable_outputs=counted.deletable_outputs,
        transitioner_hours=backlog / timedelta(hours=1),
    )


def _read_people(*, now: datetime) -> PeopleLoad:
    """Read the figures with two statements."""
    since = {"since": now - _RECENT}
    people = sql.fetch_one("health/read_population", since) or {}
    expavg_credit = people.pop("expavg_credit")
    apps = tuple(AppLoad(**row) for row in sql.fetch("health/read_app_loads", since))
    return PeopleLoad(read_at=now, **people, gflops=expavg_credit / _CREDIT_PER_GFLOPS, apps=apps)


def _stored() -> ServerLoad | None:
    """Return the stored figures, or None if they are missing or have another format."""
    kept: dict[str, Any] | None = storage.notice(_NOTICE)
    if kept is None:
        return None
    try:
        people = kept["people"] | {
            "read_at": datetime.fromisoformat(kept["people"]["read_at"]),
            "apps": tuple(AppLoad(**app) for app in kept["people"]["apps"]),
        }
        return ServerLoad(
            read_at=datetime.fromisoformat(kept["read_at"]),
            work=WorkLoad(**kept["work"]),
            people=PeopleLoad(**people),
        )
    except (KeyError, TypeError, ValueError):
        return None
