"""Statements worth reading, one per file, and the few functions that run them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal
from functools import cache
from importlib.resources import files
from json import loads
from typing import Any, LiteralString, TypeVar

from django.conf import settings
from django.db import connection

from scheduler.sql.prepared import Answer, run
from scheduler.sql.prepared import Params as Params

Row = tuple[Any, ...]
T = TypeVar("T")
#: What Python and PostgreSQL write alike, so far as arrays go.
_NUMBERS = {int, float, bool, type(None)}
_COPY_SPECIAL = re.compile(r"[\\\t\n\r]")
_COPY_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_COMMENT = re.compile(r"--[^\n]*")
#: PostgreSQL's type number of jsonb.
_JSONB = 3802


class UnknownStatement(LookupError):
    """No statement of this name. Hint: add `<name>.sql` beside the package that loads it."""


@cache
def load(name: str, package: str = "scheduler") -> LiteralString:
    """Read the statement `name`.sql of a package; raises `UnknownStatement`."""
    source = files(package) / f"{name}.sql"
    if not source.is_file():
        msg = f"There is no statement {name!r} in {package}."
        raise UnknownStatement(msg)
    return source.read_text(encoding="utf-8")


def fetch(name: str, params: Params, package: str = "scheduler") -> list[dict[str, Any]]:
    """Run a statement and return its rows as dicts."""
    columns, rows = _fetch(name, params, package)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def fetch_rows(name: str, params: Params, package: str = "scheduler") -> list[Row]:
    """Run a statement and return its rows as tuples: for passes, which read thousands."""
    return _run(name, params, package).rows


def fetch_binary(
    name: str, params: Params, package: str = "scheduler"
) -> tuple[list[str], list[Row]]:
    """Run a statement and return its columns' names and its rows, which travel in binary.

    For wide rows by the thousand: neither side writes or reads digits. jsonb comes decoded.
    """
    columns, rows, _touched = _run(name, params, package, binary=True)
    return [column.name for column in columns], rows


def fetch_into(kind: type[T], name: str, params: Params, package: str = "scheduler") -> list[T]:
    """Run a statement and return its rows as `kind`, whose fields are named as its columns.

    A named tuple with the fields in the order of the columns costs a twentieth of any other.
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


def execute(name: str, params: Params, package: str = "scheduler") -> int:
    """Run a statement and return how many rows it touched."""
    return _run(name, params, package).touched


def release() -> None:
    """Give the connection back to its pool, unless something is open: who waits needs none."""
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()


def copy_rows(name: str, rows: str, package: str = "scheduler") -> None:
    r"""Send rows to a ``COPY ... FROM STDIN``, each a line of PostgreSQL's text format.

    `escaped` is for values that may contain a tab, a line's end or a backslash; NULL is ``\N``.
    """
    with (
        connection.wrap_database_errors,
        connection.cursor() as cursor,
        cursor.copy(_bare(load(name, package))) as copy,
    ):
        copy.write(rows)


def escaped(text: str) -> str:
    """A text as it stands in a row of `copy_rows`."""
    return text.translate(_COPY_ESCAPES) if _COPY_SPECIAL.search(text) else text


def array(values: Iterable[float | datetime | Decimal | None]) -> str:
    """Write values as PostgreSQL writes an array of them; the statement's cast says of which type.

    For a fifth of psycopg's time, which asks each value of a list for its type.
    """
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def _fetch(name: str, params: Params, package: str) -> tuple[tuple[str, ...], list[Row]]:
    """The names of the columns, and the rows; of jsonb what it says."""
    columns, rows, _touched = _run(name, params, package)
    # Django has psycopg leave jsonb as text, for its own fields to decode.
    for place, column in enumerate(columns):
        if column.kind == _JSONB:
            rows = [
                row if row[place] is None else (*row[:place], loads(row[place]), *row[place + 1 :])
                for row in rows
            ]
    return tuple([column.name for column in columns]), rows


def _run(name: str, params: Params, package: str, *, binary: bool = False) -> Answer:
    statement = _bare(load(name, package))
    written = {key: _written(value) for key, value in params.items()}
    # Every statement that makes a move may name %(ledger)s: the operator's switch.
    if "%(ledger)s" in statement:
        written["ledger"] = settings.PROJECT.ledger
    return run(statement, written, binary=binary)


@cache
def _bare(statement: str) -> str:
    """A statement without comments and indentation: what is sent and looked for is short."""
    return " ".join(_COMMENT.sub("", statement).split())


def _written(value: Any) -> Any:  # noqa: ANN401  whatever a statement takes
    """A list of numbers or texts as PostgreSQL writes an array; any other value as it is.

    Statements cast every parameter, so that it need not be said of which type it is; psycopg would
    ask each element.
    """
    if type(value) is not list:
        return value
    kinds = set(map(type, value))
    if kinds <= _NUMBERS:
        return "{" + str(value)[1:-1].replace("None", "NULL") + "}"
    if kinds == {str}:
        return '{"' + '","'.join(map(_escaped, value)) + '"}'
    return value


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
