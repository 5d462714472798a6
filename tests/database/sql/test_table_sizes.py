"""The sizes of all tables, with their partitions."""

from __future__ import annotations

import pytest
from django.db import connection

from scheduler.sql import table_sizes
from tests.rows import a_workunit, an_app

pytestmark = pytest.mark.django_db


def of(name):
    [size] = [size for size in table_sizes.read() if size.name == name]
    return size


def value(query, *parameters):
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return cursor.fetchone()[0]


def test_sizes_of_a_table_are_those_of_postgresql():
    a_workunit(an_app())
    size = of("workunit")
    assert size.nbytes == value("SELECT pg_total_relation_size('workunit')")
    assert size.index_nbytes == value("SELECT pg_indexes_size('workunit')")
    toast = "SELECT pg_total_relation_size(reltoastrelid) FROM pg_class WHERE relname = 'workunit'"
    assert size.toast_nbytes == value(toast)
    assert size.own_nbytes > 0
    assert size.partition_count == 0


def test_partitions_of_a_table_are_counted_together():
    sizes = table_sizes.read()
    names = [size.name for size in sizes]
    assert len(names) == len(set(names))
    assert not [name for name in names if name.startswith("ledger_entry_")]
    parts = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'ledger_entry'::regclass"
    assert of("ledger_entry").partition_count == value(parts)
    totals = [size.nbytes for size in sizes]
    assert totals == sorted(totals, reverse=True)


def test_rows_are_estimates_and_partitions_are_counted_once():
    app = an_app()
    for _ in range(7):
        a_workunit(app)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO ledger_entry (at, workunit_id, axis, source, target, because, by)"
            " SELECT now(), n, 4, 0, 1, 1, 1 FROM generate_series(1, 50) AS n"
        )
        cursor.execute("ANALYZE workunit")
        cursor.execute("ANALYZE ledger_entry")
    assert of("workunit").estimated_rows == value("SELECT count(*) FROM workunit")
    assert of("ledger_entry").estimated_rows == value("SELECT count(*) FROM ledger_entry")


def test_every_table_is_listed_and_the_database_is_larger_than_their_sum():
    sizes = table_sizes.read()
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"
    assert sum(size.partition_count or 1 for size in sizes) >= len(sizes)
    assert len(sizes) + sum(size.partition_count for size in sizes) >= value(tables)
    assert table_sizes.database_nbytes() > sum(size.nbytes for size in sizes)
