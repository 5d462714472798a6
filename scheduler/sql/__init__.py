"""Runs SQL statements, which are stored one per file.

A statement names a state as ``{{ServerState.OVER}}``; loading it replaces the name by the number in
`scheduler.lifecycle`.  The number is a literal, not a parameter, because a cached plan uses a
partial index only if the statement has the literal of the index's condition.  A name in lower case,
``{{table}}``, is an identifier, which the caller passes with each call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from importlib.resources import files
from json import loads
from typing import Any, LiteralString, TypeVar

from django.conf import settings
from django.db import connection

from scheduler import lifecycle
from scheduler.sql.prepared import Answer, run
from scheduler.sql.prepared import Params as Params

Row = tuple[Any, ...]
T = TypeVar("T")
#: Types whose text in arrays is the same in Python and PostgreSQL.
_NUMBERS = {int, float, bool, type(None)}
_COPY_SPECIAL = re.compile(r"[\\\t\n\r]")
_COPY_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_COMMENT = re.compile(r"--[^\n]*")
_IDENTIFIER = re.compile(r"\{\{([a-z_]+)\}\}")
_CONSTANT = re.compile(r"\{\{([A-Z][\w.]*)\}\}")
_ENUMERATIONS: list[type[Enum]] = [
    kind
    for name, kind in vars(lifecycle).items()
    if isinstance(kind, type) and issubclass(kind, Enum) and name == kind.__name__
]
_CONSTANTS = {name: str(getattr(lifecycle, name)) for name in ("NOTHING", "NO_RESULT")} | {
    f"{kind.__name__}.{member.name}": str(member.value) for kind in _ENUMERATIONS for member in kind
}
#: The type OID of jsonb in PostgreSQL.
_JSONB = 3802


class UnknownStatement(LookupError):
    """No statement has this name.  Hint: add `<name>.sql` to the package that loads it."""


class UnknownConstant(LookupError):
    """A statement contains an unknown state.  Hint: see the states in `scheduler/lifecycle.py`."""


@cache
def load(name: str, package: str = "scheduler") -> LiteralString:
    """Return the statement in the file `name`.sql of a package, with states as numbers.

    Raises `UnknownStatement` if there is no such file, and `UnknownConstant` if a state in it is
    not defined in `scheduler.lifecycle`.
    """
    source = files(package) / f"{name}.sql"
    if not source.is_file():
        raise UnknownStatement(f"There is no statement {name!r} in {package}.")
    try:
        return with_numbers(source.read_text(encoding="utf-8"))
    except KeyError as error:
        msg = f"Statement {name!r} in {package} names {error}, unknown in scheduler.lifecycle."
        raise UnknownConstant(msg) from error


def with_numbers(text: str) -> str:
    """Return a statement with states as numbers; raises `KeyError` for an unknown state."""
    return _CONSTANT.sub(lambda match: _CONSTANTS[match[1]], text)


def fetch(
    name: str, params: Params, package: str = "scheduler", **identifiers: str
) -> list[dict[str, Any]]:
    """Run a statement and return its rows as dicts.

    `identifiers` are the names of tables or columns for ``{{name}}`` in the statement.
    """
    columns, rows = _fetch(name, params, package, **identifiers)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def fetch_rows(name: str, params: Params, package: str = "scheduler") -> list[Row]:
    """Run a statement and return its rows as tuples, in which jsonb is not decoded.

    This is faster than `fetch` for thousands of rows.
    """
    return _run(name, params, package).rows


def fetch_binary(
    name: str, params: Params, package: str = "scheduler"
) -> tuple[list[str], list[Row]]:
    """Run a statement and return its column names and its rows, transferred in binary format.

    This is faster for thousands of wide rows, because numbers are not converted to text and back.
    Values of jsonb are decoded.
    """
    columns, rows, _touched = _run(name, params, package, binary=True)
    return [column.name for column in columns], rows


def fetch_into(kind: type[T], name: str, params: Params, package: str = "scheduler") -> list[T]:
    """Run a statement and return its rows as instances of `kind`, with a field per column.

    A named tuple whose fields are in the order of the columns is 20 times as fast as any other
    class.
    """
    columns, rows = _fetch(name, params, package)
    if getattr(kind, "_fields", None) == columns:
        make: Callable[[Row], T] = kind._make  # type: ignore[attr-defined]  # a named tuple's
        return [make(row) for row in rows]
    return [kind(**dict(zip(columns, row, strict=True))) for row in rows]


def fetch_one(name: str, params: Params, package: str = "scheduler") -> dict[str, Any] | None:
    """Run a statement and return its first row as a dict, or None."""
    rows = fetch(name, params, package)
    return rows[0] if rows else None


def execute(name: str, params: Params, package: str = "scheduler", **identifiers: str) -> int:
    """Run a statement and return the number of rows that it changed or returned.

    `identifiers` are those of `fetch`.
    """
    return _run(name, params, package, binary=False, **identifiers).touched


def release() -> None:
    """Return the connection to its pool, unless a transaction is open.

    Call this function before a wait, so that other threads can use the connection.
    """
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()


def copy_rows(name: str, rows: str, package: str = "scheduler") -> None:
    r"""Send rows to a ``COPY ... FROM STDIN`` statement, as lines of PostgreSQL's text format.

    Values that may contain a tab, a line break or a backslash must be `escaped`; NULL is ``\N``.
    """
    with (
        connection.wrap_database_errors,
        connection.cursor() as cursor,
        cursor.copy(_bare(load(name, package))) as copy,
    ):
        copy.write(rows)


def escaped(text: str) -> str:
    """Return a value escaped for a row of `copy_rows`."""
    return text.translate(_COPY_ESCAPES) if _COPY_SPECIAL.search(text) else text


def array(values: Iterable[float | datetime | Decimal | None]) -> str:
    """Return values as the text of a PostgreSQL array, which the statement must cast.

    This is five times as fast as psycopg, which looks up the type of each value.
    """
    items = list(values)
    if _NUMBERS.issuperset(map(type, items)):
        return _array_of_numbers(items)
    return "{" + ",".join(["NULL" if value is None else str(value) for value in items]) + "}"


def _fetch(
    name: str, params: Params, package: str, **identifiers: Any
) -> tuple[tuple[str, ...], list[Row]]:
    """Run a statement; return its column names, and its rows with jsonb decoded."""
    columns, rows, _touched = _run(name, params, package, **identifiers)
    # Django configures psycopg to return jsonb as text, for its own fields to decode.
    for place, column in enumerate(columns):
        if column.kind == _JSONB:
            rows = [
                row if row[place] is None else (*row[:place], loads(row[place]), *row[place + 1 :])
                for row in rows
            ]
    return tuple([column.name for column in columns]), rows


def _run(
    name: str, params: Params, package: str, *, binary: bool = False, **identifiers: str
) -> Answer:
    statement = _bare(load(name, package), **identifiers)
    written = {key: _written(value) for key, value in params.items()}
    # Statements that make moves use %(ledger)s, the project's option `ledger`.
    if "%(ledger)s" in statement:
        written["ledger"] = settings.PROJECT.ledger
    return run(statement, written, binary=binary)


@cache
def _bare(statement: str, **identifiers: str) -> str:
    """Return a statement with its identifiers, but without comments and indentation."""
    statement = _IDENTIFIER.sub(lambda match: identifiers[match[1]], statement)
    return " ".join(_COMMENT.sub("", statement).split())


def _written(value: Any) -> Any:  # noqa: ANN401  any parameter
    """Return a list of numbers, strings or durations as the text of a PostgreSQL array.

    Other values are returned unchanged.  Statements cast every parameter, so the type need not be
    sent.  For a list, psycopg would look up the type of each element.
    """
    if type(value) is not list:
        return value
    if not value:
        return "{}"
    kinds = set(map(type, value))
    if kinds <= _NUMBERS:
        return _array_of_numbers(value)
    if kinds == {str}:
        return '{"' + '","'.join(map(_escaped, value)) + '"}'
    if kinds == {timedelta}:
        return '{"' + '","'.join(map(str, value)) + '"}'
    return value


def _array_of_numbers(values: list[Any]) -> str:
    # The text of the whole list is made at once, which is faster than one number at a time.
    return "{" + str(values)[1:-1].replace("None", "NULL") + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
