"""Empties the test database after a test that commits.

Django's flush truncates every table and then creates permissions and roles again, which takes a
third of a second of processor time.  Most tests write a few rows in a few tables: deleting them
takes a tenth of that.
"""

from __future__ import annotations

from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connection
from django.test import TransactionTestCase

#: The schema of the copies of tables that have rows after the migrations.
SCHEMA = "initial_rows"
#: Tables with more bytes are truncated, because deleting their rows takes longer.
MAX_BYTES = 1_000_000

_WRITTEN = """
SELECT c.relname, pg_relation_size(c.oid)
FROM pg_class AS c
WHERE
    c.relkind = 'r'
    AND c.relnamespace = 'public'::regnamespace
    AND c.relname <> 'django_migrations'
    AND pg_relation_size(c.oid) > 0
ORDER BY c.relname
"""
#: TRUNCATE does this, and VACUUM does not: PostgreSQL then knows nothing about the table's rows.
_FORGET = """
SELECT pg_clear_relation_stats(n.nspname, c.relname)
FROM pg_class AS c INNER JOIN pg_namespace AS n ON c.relnamespace = n.oid
WHERE c.relname = any(%s) AND n.nspname = 'public'
"""
_FORGET_BEFORE_18 = """
UPDATE pg_class SET reltuples = -1, relpages = 0
WHERE relname = any(%s) AND relnamespace = 'public'::regnamespace
"""
_SINCE_18 = 180_000

#: The tables that have rows after the migrations.
_initial: list[str] = []


def prepare() -> None:
    """Copy the rows that migrations created, and use this module for the rest of the session."""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; CREATE SCHEMA {SCHEMA}")
        cursor.execute(_WRITTEN)
        _initial[:] = [name for name, _ in cursor.fetchall()]
        for name in _initial:
            cursor.execute(f"CREATE TABLE {SCHEMA}.{name} AS TABLE public.{name}")
    TransactionTestCase._fixture_teardown = lambda _case: empty()


def empty() -> None:
    """Delete all rows except those that migrations created."""
    from scheduler.sql import guard_triggers

    size_by_table = _sizes()
    if any(size > MAX_BYTES for size in size_by_table.values()):
        call_command("flush", verbosity=0, interactive=False, inhibit_post_migrate=True)
        # Django leaves tables alone that it does not manage, such as the ledger's partitions.
        _delete(list(_sizes()), _initial)
    else:
        written = list(size_by_table)
        _delete(written, [name for name in _initial if _is_changed(name)])
    if settings.GUARD_TRIGGER and not guard_triggers.is_installed():
        guard_triggers.install()


def _sizes() -> dict[str, int]:
    """Return the bytes of each table with rows, except for those that migrations filled."""
    with connection.cursor() as cursor:
        cursor.execute(_WRITTEN)
        return {name: nbytes for name, nbytes in cursor.fetchall() if name not in _initial}


def _is_changed(name: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT EXISTS (TABLE {SCHEMA}.{name} EXCEPT TABLE public.{name})"
            f" OR EXISTS (TABLE public.{name} EXCEPT TABLE {SCHEMA}.{name})"
        )
        return bool(cursor.fetchone()[0])


def _delete(written: list[str], changed: list[str]) -> None:
    """Delete the rows of the tables `written`, and restore the tables `changed`."""
    if not written and not changed:
        return
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")  # no triggers, no foreign keys
        for name in (*written, *changed):
            cursor.execute(f"DELETE FROM {name}")
        for name in changed:
            cursor.execute(f"INSERT INTO {name} OVERRIDING SYSTEM VALUE TABLE {SCHEMA}.{name}")
        cursor.execute("RESET session_replication_role")
        if written:
            cursor.execute(f"VACUUM {', '.join(written)}")
            is_new = connection.connection.info.server_version >= _SINCE_18
            cursor.execute(_FORGET if is_new else _FORGET_BEFORE_18, [written])
    if changed:
        ContentType.objects.clear_cache()
