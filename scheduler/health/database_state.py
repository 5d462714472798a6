"""Reads the state of the database for `manage.py doctor`, on one connection."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from time import monotonic
from typing import Any, Final

from django.db import Error, connection, transaction
from django.db.migrations.executor import MigrationExecutor

from scheduler import sql
from scheduler.health.rules.checkups import DatabaseFacts
from scheduler.sql import database_roles

#: The time limit of each statement.
STATEMENT_TIMEOUT: Final = "5s"
_OWNS = "owns the tables"
#: PostgreSQL's messages for a connection above one of its limits.  psycopg has no code of an error
#: that occurs while it connects.
_NO_CONNECTION: Final = re.compile(
    r"too many clients already|remaining connection slots are reserved|too many connections for"
)


def read(clock: Callable[[], datetime]) -> DatabaseFacts:
    """Return the facts; `clock` is called before and after the database's clock is read.

    Raises Django's `Error` if the database cannot be reached.  Tables need not exist: without them,
    the migrations are listed as unapplied.
    """
    began = monotonic()
    connection.ensure_connection()
    seconds = monotonic() - began
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('statement_timeout', %s, TRUE)", [STATEMENT_TIMEOUT])
        before = clock()
        row = sql.fetch_one("health/read_database_state", {}) or {}
        after = clock()
        role, difference = database_roles.closest()
        unapplied = unapplied_migrations()
        signs: dict[str, Any] = {} if unapplied else _signs()
    return DatabaseFacts(
        version=row["version"],
        version_text=row["version_text"],
        is_embedded=bool(connection.settings_dict.get("EMBEDDED")),
        seconds=seconds,
        unapplied=unapplied,
        user=row["role_name"],
        owns_tables=any(text.startswith(_OWNS) for text in difference.excess),
        role=role,
        excess=difference.excess,
        missing=difference.missing,
        autovacuum=row["autovacuum"],
        longest_transaction=row["longest_transaction"],
        clock_difference=row["database_at"] - before - (after - before) / 2,
        clock_uncertainty=(after - before) / 2,
        **signs,
    )


def _signs() -> dict[str, Any]:
    return sql.fetch_one("health/read_signs_of_service", {}) or {}


def unapplied_migrations() -> tuple[str, ...]:
    """Return the names of migrations that are not applied, in their order: `app.name`.

    Reads the files of all migrations, and one table.
    """
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return tuple(f"{migration.app_label}.{migration.name}" for migration, _ in plan)


def is_out_of_connections(error: Exception) -> bool:
    """Return whether PostgreSQL runs, and refused a connection because it has too many.

    The message is recognized in English only.
    """
    return _NO_CONNECTION.search(str(error)) is not None


def one_line(error: Error) -> str:
    """Return the message of a database error in one line; it never contains the password."""
    return " ".join(str(error).split())
