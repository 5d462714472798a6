"""Checks whether this web process can answer requests that need the database."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import psycopg
from django.db import Error as DatabaseError
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from psycopg_pool import PoolTimeout

from project.monitoring.refresher import Refresher
from scheduler.boinc.database_outages import database_watchdog, probe_database
from scheduler.health.database_state import is_out_of_connections

#: The time within which the database must answer; seconds.
TIMEOUT_SECONDS: Final = 2.0
#: The time for which a check waits for a connection of the pool; a busy pool has one within
#: milliseconds.
POOL_TIMEOUT_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Failure:
    """A check that failed; `reason` is a fixed text without names of the installation."""

    check: str
    reason: str


NO_ANSWER: Final = Failure("database", f"no answer within {TIMEOUT_SECONDS:g} seconds")
REFUSED: Final = Failure("database", "the connection or the query failed; the log has the reason")
NO_CONNECTION: Final = Failure("database", "PostgreSQL permits no further connection")
POOL_EXHAUSTED: Final = Failure(
    "pool", f"the database answers, but no connection was free for {POOL_TIMEOUT_SECONDS:g} second"
)
NOT_MIGRATED: Final = Failure("migrations", "not all migrations are applied: manage.py migrate")
OUTAGE: Final = Failure("outage", "requests are refused until the database can be reached again")


def read_failures() -> tuple[Failure, ...]:
    """Query the database; return the failed checks.  Releases the connection.

    If the pool has no free connection, the database is probed by a connection of its own.
    """
    try:
        if _pool_is_exhausted():
            probe_database()
            return (POOL_EXHAUSTED,)
        return () if _is_migrated() else (NOT_MIGRATED,)
    except (DatabaseError, psycopg.Error) as error:
        return (NO_CONNECTION if is_out_of_connections(error) else REFUSED,)
    finally:
        connection.close()


def _pool_is_exhausted() -> bool:
    pool = _pool()
    if pool is None:
        return False
    pool.open()
    try:
        pool.putconn(pool.getconn(timeout=POOL_TIMEOUT_SECONDS))
    except PoolTimeout:
        return True
    return False


def _pool() -> Any:  # noqa: ANN401 - Django's types do not have the attribute
    """Return the pool of this process, or None without `DATABASE_POOL`."""
    return getattr(connection, "pool", None)


def _is_migrated() -> bool:
    # Read each time, because this is the query that shows that the database answers.
    return _migrations_on_disk() <= MigrationRecorder(connection).applied_migrations().keys()


@cache
def _migrations_on_disk() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationLoader(None).disk_migrations)


_checks: Final = Refresher(read_failures, keep_seconds=1.0, timeout_seconds=TIMEOUT_SECONDS)


def failures() -> tuple[Failure, ...]:
    """Return the failed checks, read at most three seconds ago, within about two seconds."""
    failed = _checks.get()
    if failed is None:
        failed = (NO_ANSWER,)
    return (*failed, OUTAGE) if database_watchdog.is_unreachable else failed


def database_is_up() -> bool:
    """Return whether the database answers, even if migrations are missing."""
    return not {NO_ANSWER, REFUSED, NO_CONNECTION} & set(failures())
