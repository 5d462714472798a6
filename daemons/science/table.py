"""Assimilates by inserting records into a database table, exactly once.

The rows are inserted in the transaction that marks the workunit as assimilated.  The table is
created by a Django model or by SQL of the project.  The server's own tables are refused.  Names are
quoted, and values are passed as parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from django.apps import apps
from django.db import connection
from psycopg import sql
from psycopg.types.json import Jsonb

from daemons.science import checking
from daemons.science.interfaces import BadOptions
from daemons.science.records import BadRecords, chosen, records

if TYPE_CHECKING:
    from daemons.science.interfaces import Assimilation

_KNOWN = {
    "table": checking.text,
    "model": checking.text,
    "output": checking.text,
    "columns": checking.texts,
    "key_column": checking.text,
    "workunit_column": checking.text,
    "error_column": checking.text,
}
#: The Django apps whose tables belong to the server.
_SERVER_APPS = frozenset({"scheduler", "auth", "admin", "contenttypes", "sessions"})
_SERVER_SCHEMAS = frozenset({"public", "pg_catalog", "information_schema"})


@dataclass(frozen=True, slots=True)
class Table:
    """An assimilator that inserts records into a table.

    Each field of a record is inserted into the column with the same name.  If `columns` is set,
    only these columns are filled, and a missing field is NULL.  For a failed workunit, a row is
    inserted only if there is an `error_column`.
    """

    table: tuple[str, ...]
    output: str | None = None
    columns: tuple[str, ...] = ()
    key_column: str | None = None
    workunit_column: str | None = None
    error_column: str | None = None
    transactional: ClassVar[bool] = True

    def __call__(self, assimilation: Assimilation) -> None:
        """Insert a workunit's records as rows; raises `BadRecords` and database errors."""
        if assimilation.failed:
            if self.error_column:
                self._insert(
                    [self._own(assimilation) | {self.error_column: self._why(assimilation)}]
                )
            return
        own = self._own(assimilation)
        rows = [
            {name: record.get(name) for name in self.columns} if self.columns else record
            for record in records(chosen(assimilation, self.output))
        ]
        if any(set(row) != set(rows[0]) for row in rows):
            raise BadRecords("The records have different fields. Hint: set the option 'columns'.")
        if reserved := {name for row in rows for name in row if name in own}:
            raise BadRecords(
                f"A record has a field {min(reserved)!r}, which the app's options fill."
            )
        self._insert([own | row for row in rows])

    def _own(self, assimilation: Assimilation) -> dict[str, Any]:
        own = {self.key_column: assimilation.key, self.workunit_column: assimilation.workunit_name}
        return {name: value for name, value in own.items() if name}

    @staticmethod
    def _why(assimilation: Assimilation) -> str:
        return ", ".join(assimilation.errors) + (
            f": {assimilation.cancel_reason}" if assimilation.cancel_reason else ""
        )

    def _insert(self, rows: list[dict[str, Any]]) -> None:
        if not rows or not rows[0]:
            return
        with connection.cursor() as cursor:
            cursor.executemany(
                insertion(self.table, list(rows[0])).as_string(connection.connection),
                [[_value(value) for value in row.values()] for row in _in_same_order(rows)],
            )


def make(options: object) -> Table:
    """Return the assimilator that a plug-in's options describe; raises `BadOptions`."""
    read = checking.checked("table", options, _KNOWN)
    model, table = read.pop("model", None), read.pop("table", None)
    if (model is None) == (table is None):
        raise BadOptions("table needs either the option 'table' or 'model'. Hint: set one.")
    name = _table_of(model) if model else tuple(table.split("."))
    if len(name) > 2 or not all(name):  # noqa: PLR2004 - schema and table
        raise BadOptions(f"{table!r} is not a table. Hint: write table or schema.table.")
    if _is_server_table(name):
        raise BadOptions(
            f"{'.'.join(name)} is one of the server's own tables. "
            "Hint: create a table for the science, in its own schema or with its own name."
        )
    return Table(name, **read)


def insertion(table: tuple[str, ...], columns: list[str]) -> sql.Composed:
    """Return the statement that inserts a row, with every name quoted."""
    return sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
        sql.Identifier(*table),
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.SQL(", ").join([sql.Placeholder()] * len(columns)),
    )


def _in_same_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with their fields in the order of the first row."""
    return [{name: row[name] for name in rows[0]} for row in rows]


def _value(value: Any) -> Any:  # noqa: ANN401 - any JSON
    return Jsonb(value) if isinstance(value, dict | list) else value


def _table_of(model: str) -> tuple[str, ...]:
    try:
        return (apps.get_model(model)._meta.db_table,)
    except (LookupError, ValueError) as error:
        raise BadOptions(
            f"There is no model {model!r}: {error} Hint: write app_label.Model."
        ) from error


def _is_server_table(name: tuple[str, ...]) -> bool:
    """Return whether a table belongs to the server or to PostgreSQL.

    The partitions of the ledger belong to the server.
    """
    schema, table = name if len(name) > 1 else ("public", name[0])
    if schema not in _SERVER_SCHEMAS:
        return schema.startswith("pg_")
    tables = {
        model._meta.db_table for model in apps.get_models() if model._meta.app_label in _SERVER_APPS
    }
    return (
        schema != "public"
        or table in tables
        or table.startswith(("ledger_entry", "django_", "pg_"))
    )
