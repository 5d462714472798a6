"""Runs statements faster than Django, since each connection prepares them once.

The cursors of Django and psycopg support every kind of statement, which takes five times as much
CPU time.  The statements here cast all parameters, and their columns never change.  psycopg's
adapters convert the values, and psycopg's loop waits for the replies.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from django.db import DEFAULT_DB_ALIAS, connections
from psycopg import errors, generators
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ExecStatus, Format, TransactionStatus

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGresult

Params = Mapping[str, Any]
_PARAMETER = re.compile(r"%%|%\((\w+)\)s")
_GOOD = {ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK}
#: The name of each prepared statement, by connection.
_names: WeakKeyDictionary[Connection, dict[str, bytes]] = WeakKeyDictionary()


class Column(NamedTuple):
    """A column of a statement's rows, with its name and the OID of its PostgreSQL type."""

    name: str
    kind: int


class Answer(NamedTuple):
    """The result of a statement; `touched` is the number of rows that it returned or changed."""

    columns: tuple[Column, ...]
    rows: list[tuple[Any, ...]]
    touched: int


def run(statement: str, params: Params, *, binary: bool = False) -> Answer:
    """Run a statement that casts all its parameters; raises Django's database errors.

    With `binary`, rows are transferred in PostgreSQL's binary format.  If statements on this
    connection are observed (execute_wrapper, CaptureQueriesContext), Django runs the statement, so
    that the observers receive it.
    """
    database: Any = connections[DEFAULT_DB_ALIAS]
    form = Format.BINARY if binary else Format.TEXT
    if database.execute_wrappers or database.queries_logged:
        return _run_watched(database, statement, params, form)
    database.ensure_connection()
    database.validate_no_broken_transaction()
    with database.wrap_database_errors:
        database.read_times_quickly()
        return _run(database.connection, statement, params, form)


def _run(connection: Connection, statement: str, params: Params, form: Format) -> Answer:
    text, wanted = _numbered(statement)
    wire = connection.pgconn
    if not connection.autocommit and wire.transaction_status == TransactionStatus.IDLE:
        wire.send_query(b"BEGIN")
        _result(connection)
    names = _names.setdefault(connection, {})
    if statement not in names:
        name = b"manyhands_%d" % len(names)
        wire.send_prepare(name, text)
        _result(connection)
        names[statement] = name
    values = Transformer(connection)
    written = values.dump_sequence([params[key] for key in wanted], [PyFormat.TEXT] * len(wanted))
    wire.send_query_prepared(names[statement], written, result_format=form)
    result = _result(connection)
    if result.status == ExecStatus.COMMAND_OK:
        return Answer((), [], result.command_tuples or 0)
    values.set_pgresult(result)
    rows = values.load_rows(0, result.ntuples, tuple)
    return Answer(_columns(statement, result), rows, result.ntuples)


def _result(connection: Connection) -> PGresult:
    """Wait for the result of the last query; raises psycopg's error if the query failed."""
    result: PGresult
    (result,) = connection.wait(generators.execute(connection.pgconn))
    if result.status not in _GOOD:
        raise errors.error_from_result(result)
    return result


@cache
def _numbered(statement: str) -> tuple[bytes, tuple[str, ...]]:
    """Return a statement with `$1`, `$2` ... as parameters, and the names of the parameters."""
    places: dict[str, int] = {}

    def place(match: re.Match[str]) -> str:
        if match[1] is None:
            return "%"
        return f"${places.setdefault(match[1], len(places) + 1)}"

    text = _PARAMETER.sub(place, statement)
    return text.encode(), tuple(places)


_columns_by_statement: dict[str, tuple[Column, ...]] = {}


def _columns(statement: str, result: PGresult) -> tuple[Column, ...]:
    """Return the columns of a statement's rows, cached because they never change."""
    columns = _columns_by_statement.get(statement)
    if columns is None:
        columns = _columns_by_statement[statement] = tuple(
            Column((result.fname(place) or b"").decode(), result.ftype(place))
            for place in range(result.nfields)
        )
    return columns


def _run_watched(database: Any, statement: str, params: Params, form: Format) -> Answer:  # noqa: ANN401  Django's wrapper
    with database.cursor() as cursor:
        cursor.cursor.format = form
        cursor.execute(statement, params)
        if cursor.description is None:
            return Answer((), [], cursor.rowcount)
        columns = tuple(Column(each.name, each.type_code) for each in cursor.description)
        return Answer(columns, cursor.fetchall(), cursor.rowcount)
