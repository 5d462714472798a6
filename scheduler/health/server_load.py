"""Reads the figures of `server_status.php` that the status page does not show."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.core.cache import cache

from scheduler import sql

#: Time for which a process caches the figures, because reading them scans whole tables.
KEEP: Final = timedelta(minutes=10)
#: Accounts, hosts and results of this time are recent.
_RECENT: Final = timedelta(days=1)
#: A computer of 1 GFLOPS has a recent average credit of 200 (PROTOCOL 9.6).
_CREDIT_PER_GFLOPS: Final = 200
_CACHE_KEY: Final = "manyhands.server_load"
#: One thread of a process reads; the others wait, and then get the cached figures.
_lock = threading.Lock()


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
class ServerLoad:
    """Numbers of accounts and hosts, the speed in GFLOPS, and the load of each app."""

    users_with_recent_credit: int
    users_with_credit: int
    users_registered: int
    hosts_with_recent_credit: int
    hosts_with_credit: int
    hosts_registered: int
    gflops: float
    apps: tuple[AppLoad, ...]


def current(*, now: datetime) -> ServerLoad:
    """Return the cached figures if they are at most `KEEP` old, else read and cache them."""
    load: ServerLoad | None = cache.get(_CACHE_KEY)
    if load is not None:
        return load
    with _lock:
        load = cache.get(_CACHE_KEY)
        if load is None:
            load = read(now=now)
            cache.set(_CACHE_KEY, load, KEEP.total_seconds())
        return load


def forget() -> None:
    """Delete the cached figures of this process."""
    cache.delete(_CACHE_KEY)


def read(*, now: datetime) -> ServerLoad:
    """Read the figures with two statements."""
    since = {"since": now - _RECENT}
    people = sql.fetch_one("health/read_population", since) or {}
    expavg_credit = people.pop("expavg_credit")
    apps = tuple(AppLoad(**row) for row in sql.fetch("health/read_app_loads", since))
    return ServerLoad(**people, gflops=expavg_credit / _CREDIT_PER_GFLOPS, apps=apps)
