"""The fast path of statements: its results, and its use after a rollback."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import ProgrammingError, connection, transaction
from django.db.transaction import TransactionManagementError
from django.db.utils import OperationalError
from django.test.utils import CaptureQueriesContext
from psycopg.types.json import Jsonb

from scheduler import sql
from scheduler.models import Platform
from scheduler.sql import prepared

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
EVERYTHING = """
    SELECT %(number)s::integer AS number, %(real)s::double precision AS real,
        %(exact)s::numeric AS exact, %(word)s::text AS word, %(yes)s::boolean AS yes,
        %(none)s::text AS none, %(at)s::timestamptz AS at, %(long)s::interval AS long,
        %(day)s::date AS day, %(bytes)s::bytea AS bytes, %(said)s::jsonb AS said,
        %(words)s::text[] AS words, %(longs)s::interval[] AS longs, %(number)s::integer AS again,
        'a' LIKE 'a%%' AS per_cent
"""
VALUES: dict[str, Any] = {
    "number": 7,
    "real": 0.1,
    "exact": Decimal("1.10"),
    "word": "ü%s 'x' \\",
    "yes": True,
    "none": None,
    "at": NOON,
    "long": timedelta(days=1, seconds=2),
    "day": NOON.date(),
    "bytes": b"\0\xff",
    "said": Jsonb({"a": [1, "b"]}),
    "words": ["a", "b,"],
    "longs": [timedelta(hours=30), timedelta(0)],
}


def known() -> list[str]:
    """Return the project's statements that are prepared on this connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements WHERE name LIKE 'manyhands%%'")
        return [row[0] for row in cursor.fetchall()]


@pytest.mark.django_db
@pytest.mark.parametrize("binary", [False, True])
def test_the_fast_path_returns_the_same_rows_as_a_django_cursor(binary: bool) -> None:
    short = prepared.run(EVERYTHING, VALUES, binary=binary)
    with CaptureQueriesContext(connection) as captured:
        watched = prepared.run(EVERYTHING, VALUES, binary=binary)
    assert len(captured) == 1
    assert short == watched
    assert short.rows[0][0] == short.rows[0][13] == 7
    assert short.rows[0][6] == NOON
    assert short.rows[0][6].tzinfo is not None


@pytest.mark.django_db
def test_a_prepared_statement_survives_a_rollback_and_is_prepared_once() -> None:
    def ask() -> None:
        assert sql.fetch("results/lock_workunits", {"workunit_ids": [1]}) == []

    ask()
    with pytest.raises(ProgrammingError), transaction.atomic():
        prepared.run("SELECT nonsense", {})
    for _ in range(12):
        list(Platform.objects.all())
    with transaction.atomic():
        ask()
        transaction.set_rollback(True)
    ask()
    text = sql._bare(sql.load("results/lock_workunits")).replace("%(workunit_ids)s", "$1")
    assert known().count(text) == 1


@pytest.mark.django_db
def test_a_statement_in_a_broken_transaction_is_refused() -> None:
    with transaction.atomic():
        transaction.set_rollback(True)
        with pytest.raises(TransactionManagementError):
            prepared.run("SELECT 1", {})


@pytest.mark.django_db(transaction=True)
def test_fast_path_writes_are_committed_or_rolled_back_with_the_transaction() -> None:
    def add(name: str) -> int:
        return prepared.run(
            "INSERT INTO platform (name, user_friendly_name) VALUES (%(name)s::text, '')",
            {"name": name},
        ).touched

    assert add("at once") == 1
    connection.close()
    with transaction.atomic():
        assert add("never") == 1
        transaction.set_rollback(True)
    with transaction.atomic():
        assert add("together") == 1
    connection.close()
    assert set(Platform.objects.values_list("name", flat=True)) >= {"at once", "together"}
    assert not Platform.objects.filter(name="never").exists()


@pytest.mark.django_db(transaction=True)
def test_a_terminated_connection_raises_operational_error_and_is_reopened() -> None:
    (((own,),),) = (prepared.run("SELECT pg_backend_pid()", {}).rows,)
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [own])
    other.close()
    with pytest.raises(OperationalError):
        prepared.run("SELECT pg_backend_pid()", {})
    connection.close_if_unusable_or_obsolete()
    assert prepared.run("SELECT pg_backend_pid()", {}).rows != [(own,)]
