"""Grants rights to database roles, and compares them with the actual ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core import checks
from django.db import DEFAULT_DB_ALIAS, Error, connections, transaction
from psycopg import sql

from scheduler import sql as statements
from scheduler.sql import table_rights
from scheduler.sql.table_rights import ROLES

#: The purpose of each role, as a comment in the printed SQL.
PURPOSES = {
    "owner": "runs migrations, owns the tables",
    "web": "the web server",
    "daemons": "daemons and Celery's workers",
    "science": "analyses: reads work and results, no passwords, tokens or keys",
}
#: The hint of every warning about rights.
HINT = "Run `manage.py database_roles`, and give each process the URL of its own role."


@dataclass(frozen=True, slots=True)
class Difference:
    """The rights that the current role has beyond the list, and those that it lacks."""

    excess: tuple[str, ...]
    missing: tuple[str, ...]


def role_statements(prefix: str, database: str) -> list[str]:
    """Return the SQL that a superuser executes: the roles and their access to the database.

    The statements can be repeated.  Passwords are not included.
    """
    name, group = sql.Identifier(database), _roles(prefix)
    created = [
        sql.SQL(
            "DO $$ BEGIN CREATE ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION "
            "NOBYPASSRLS; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
        ).format(sql.Identifier(f"{prefix}_{role}"))
        for role in PURPOSES
    ]
    granted = [
        sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(name),
        sql.SQL("REVOKE ALL ON DATABASE {} FROM {}").format(name, group),
        sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(name, group),
    ]
    return [statement.as_string() for statement in (*created, *granted)]


def grant_statements(prefix: str, schema: str = "public") -> list[str]:
    """Return the SQL that the owner of the tables executes after each migration.

    It first revokes all rights, so rights that this release no longer lists disappear.
    """
    group, room = _roles(prefix), sql.Identifier(schema)
    composed = [
        sql.SQL("REVOKE CREATE ON SCHEMA {} FROM PUBLIC").format(room),
        sql.SQL("REVOKE ALL ON SCHEMA {} FROM {}").format(room, group),
        sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(room, group),
        sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA {} FROM PUBLIC, {}").format(room, group),
        sql.SQL("REVOKE ALL ON ALL SEQUENCES IN SCHEMA {} FROM PUBLIC, {}").format(room, group),
    ]
    for role in ROLES:
        grantee = sql.Identifier(f"{prefix}_{role}")
        for right in table_rights.rights_of(role):
            columns = sql.SQL(", ").join(map(sql.Identifier, right.columns))
            limit = sql.SQL(" ({})").format(columns) if right.columns else sql.SQL("")
            composed.append(
                sql.SQL("GRANT {}{} ON {} TO {}").format(
                    sql.SQL(right.privilege), limit, sql.Identifier(schema, right.table), grantee
                )
            )
        for sequence, readers in table_rights.SEQUENCES.items():
            if role in readers:
                named = sql.Identifier(schema, sequence)
                composed.append(sql.SQL("GRANT USAGE ON SEQUENCE {} TO {}").format(named, grantee))
        for signature, callers in table_rights.FUNCTIONS.items():
            function = sql.SQL("{}.{}").format(room, sql.SQL(signature))
            composed.append(sql.SQL("REVOKE ALL ON FUNCTION {} FROM {}").format(function, grantee))
            if role in callers:
                composed.append(
                    sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(function, grantee)
                )
    return [statement.as_string() for statement in composed]


def create_roles(prefix: str) -> None:
    """Create the roles as a superuser, and let them connect to the current database."""
    _execute(role_statements(prefix, str(connections[DEFAULT_DB_ALIAS].settings_dict["NAME"])))


def grant(prefix: str) -> None:
    """Give the roles their rights, as the owner of the tables, in one transaction."""
    _execute(grant_statements(prefix, _schema()))


def undecided_tables() -> list[str]:
    """Return the tables of the database that `table_rights` does not list."""
    tables = {row["name"] for row in statements.fetch("sql/read_tables", {})}
    return sorted(tables - set(table_rights.TABLES))


def compare(role: str) -> Difference:
    """Compare the rights of the current connection with those of web, daemons or science."""
    allowed = {
        (right.table, right.privilege, column)
        for right in table_rights.rights_of(role)
        for column in (right.columns or ("",))
    }
    actual = {
        (row["name"], row["privilege"], row["column_name"])
        for row in statements.fetch("sql/read_own_rights", {})
    }
    whole = {(table, privilege) for table, privilege, column in allowed if not column}
    granted = {(table, privilege) for table, privilege, column in actual if not column}
    # A right on a whole table appears as a right on each of its columns, too.
    excess = {
        right
        for right in actual - allowed
        if right[:2] not in whole and not (right[2] and right[:2] in granted)
    }
    missing = {right for right in allowed - actual if right[:2] not in granted}
    [own] = statements.fetch("sql/read_own_role", {})
    return Difference(
        excess=(*_attributes(own), *sorted(map(_text, excess))),
        missing=tuple(sorted(map(_text, missing))),
    )


def closest() -> tuple[str, Difference]:
    """Return the role whose rights the current connection exceeds least, with the difference."""
    compared = [(role, compare(role)) for role in ROLES]
    return min(compared, key=lambda pair: len(pair[1].excess) + len(pair[1].missing))


def warn_of_excess(*, databases: Any = None, **_: object) -> list[checks.CheckMessage]:  # noqa: ANN401 - Django's
    """Return a warning if this process has more database rights than its role needs.

    It is part of `manage.py check --database default`, which each process's operator runs in the
    environment of that process.
    """
    if DEFAULT_DB_ALIAS not in (databases or ()):
        return []
    try:
        role, difference = closest()
    except Error:  # the tables do not exist yet, or the database does not answer
        return []
    if not difference.excess:
        return []
    first = "; ".join(difference.excess[:3])
    more = len(difference.excess) - 3
    rest = f" and {more} more" if more > 0 else ""
    return [
        checks.Warning(
            f"The database role has more rights than the role {role} needs: {first}{rest}.",
            hint=HINT,
            id="scheduler.W001",
        )
    ]


def _attributes(own: dict[str, Any]) -> list[str]:
    texts = {
        "is_superuser": "is a superuser",
        "creates_roles": "can create roles",
        "creates_databases": "can create databases",
        "replicates": "can replicate",
        "owns_tables": "owns the tables, so it can change the schema",
        "creates_tables": "can create tables in the schema",
        "creates_temporary": "can create temporary tables",
    }
    return [text for name, text in texts.items() if own[name]]


def _text(right: tuple[str, str, str]) -> str:
    table, privilege, column = right
    return f"{privilege} on {table}.{column}" if column else f"{privilege} on {table}"


def _roles(prefix: str) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(f"{prefix}_{role}") for role in ROLES)


def _schema() -> str:
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute("SELECT current_schema()")
        return str(cursor.fetchone()[0])


def _execute(lines: list[str]) -> None:
    with transaction.atomic(), connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        for line in lines:
            cursor.execute(line)
