"""Loads millions of unsent results without ANALYZE, the worst case for claims."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.db import connection, transaction
from django.db.models import Model

from bench import backlog
from bench.figures import BenchError
from scheduler.models import Result, Workunit, WorkunitFile

QUORUM = 2
#: The bulk load fails after this time.
TIMEOUT_SECONDS = 480.0
#: The number of workunits per statement.  With larger batches, progress would rarely be shown.
BATCH_SIZE = 100_000


def load(results: int, advance: Callable[[float], object]) -> None:
    """Insert `results` unsent results, as copies of one workunit with two results.

    Foreign keys are not checked during the load, because the referenced rows exist.  All indexes
    exist, and the tables are not analyzed or vacuumed, as after a huge submission.  After each
    batch, calls `advance` with the number of new results.  Raises BenchError after
    `TIMEOUT_SECONDS`.
    """
    backlog.forget()
    backlog.unsent(QUORUM, quorum=QUORUM)
    model = Workunit.objects.get()
    first = model.pk + 1
    workunits = results // QUORUM - 1
    began = time.monotonic()
    for begin in range(0, workunits, BATCH_SIZE):
        if time.monotonic() - began > TIMEOUT_SECONDS:
            raise BenchError(f"{QUORUM * begin} results took {TIMEOUT_SECONDS:.0f} s to load.")
        end = min(begin + BATCH_SIZE, workunits)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")
            for statement in _statements():
                cursor.execute(statement, {"first": first, "begin": begin, "end": end - 1})
        advance(QUORUM * (end - begin))
    with connection.cursor() as cursor:
        for table in ("workunit", "result", "workunit_file"):
            cursor.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}"
            )


def _statements() -> tuple[str, str, str]:
    """Return one statement per table, which copies the rows of the first workunit with new ids."""
    number = "lpad((%(first)s::bigint + g)::text, 9, '0')"
    name = f"'bulk_' || {number}"
    workunit = "%(first)s::bigint + g"
    return (
        copy_statement(Workunit, {"id": workunit, "name": name}, source="id < %(first)s::bigint"),
        copy_statement(
            WorkunitFile,
            {"id": f"{workunit} + 1000", "workunit_id": workunit},
            source="workunit_id < %(first)s::bigint",
        ),
        copy_statement(
            Result,
            {
                "id": f"2 * ({workunit}) + 1000 + attempt",
                "workunit_id": workunit,
                "name": f"{name} || '_' || attempt",
            },
            source="workunit_id < %(first)s::bigint",
        ),
    )


def copy_statement(model: type[Model], changed: dict[str, str], *, source: str) -> str:
    """Return a statement that copies the rows of a table that match the condition `source`.

    It has the parameters `begin` and `end`, and copies the rows once for each number `g` from
    `begin` to `end`.  `changed` maps columns to expressions, which can contain `g`.
    """
    names = [str(field.column) for field in model._meta.concrete_fields]
    columns = [connection.ops.quote_name(name) for name in names]
    values = [changed.get(name, column) for name, column in zip(names, columns, strict=True)]
    table = model._meta.db_table
    return (
        f"INSERT INTO {table} ({', '.join(columns)})"
        f" SELECT {', '.join(values)}"
        f" FROM generate_series(%(begin)s::bigint, %(end)s::bigint) AS g, {table}"
        f" WHERE {source}"
    )
