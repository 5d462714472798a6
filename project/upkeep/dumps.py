"""Dumps the database of a project by pg_dump, and loads it by pg_restore."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from django.db import connection, transaction
from psycopg import pq
from psycopg.sql import SQL, Identifier

from project.database_owner import EmbeddedPostgresError, binaries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Where Debian installs the programs of each version.
_INSTALLED: Final = Path("/usr/lib/postgresql")
_DUMP_OPTIONS: Final = ("--format=custom", "--no-publications", "--no-subscriptions")
#: Owners, rights and tablespaces belong to a server, not to the project.
_OWN_OPTIONS: Final = ("--no-owner", "--no-privileges", "--no-tablespaces")
#: A failed restore leaves an empty database.
_RESTORE_OPTIONS: Final = ("--exit-on-error", "--single-transaction")
_OBJECTS = """\
SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND c.relkind IN ('r', 'p', 'v', 'm')
"""


#: From this version on pg_restore sets `transaction_timeout`, which earlier servers do not have;
#: earlier versions of pg_restore cannot read the dumps of later versions of pg_dump.
_TIMEOUT_SINCE: Final = 17


class DumpFailed(Exception):
    """pg_dump or pg_restore is missing or failed; the text contains a hint."""


def server_major() -> int:
    """Return the major version of the database server."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version_num")
        [(number,)] = cursor.fetchall()
    return int(number) // 10_000


def count_objects() -> int:
    """Return the number of tables and views in the database."""
    with connection.cursor() as cursor:
        cursor.execute(_OBJECTS)
        [(count,)] = cursor.fetchall()
    return int(count)


def database_nbytes() -> int:
    """Return the size of the database in bytes."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        [(nbytes,)] = cursor.fetchall()
    return int(nbytes)


def project_identifier() -> str:
    """Return the identifier of the project, or an empty string if the database has none yet."""
    if not _exists("installation"):
        return ""
    with connection.cursor() as cursor:
        cursor.execute("SELECT identifier::text FROM installation")
        return "".join(identifier for (identifier,) in cursor.fetchall())


def row_counts(tables: Iterable[str]) -> dict[str, int]:
    """Return the numbers of rows of those of the tables that exist."""
    counts = {}
    with connection.cursor() as cursor:
        for table in filter(_exists, tables):
            cursor.execute(SQL("SELECT count(*) FROM {}").format(Identifier(table)))
            counts[table] = int(cursor.fetchone()[0])
    return counts


def _exists(table: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [table])
        return bool(cursor.fetchone()[0])


@contextmanager
def snapshot() -> Iterator[str]:
    """Open a transaction whose statements all read one snapshot; yield its identifier.

    While the transaction is open, `dump` can read the same snapshot.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute("SELECT pg_export_snapshot()")
        [(identifier,)] = cursor.fetchall()
        yield str(identifier)


def dump(descriptor: int, snapshot_id: str) -> int:
    """Write a dump of the snapshot to an open file; return the major version of pg_dump.

    Raises DumpFailed.
    """
    program, major = find_dumper()
    options = (*_DUMP_OPTIONS, *_OWN_OPTIONS, f"--snapshot={snapshot_id}")
    _run([program, *options], stdout=descriptor)
    return major


def load(path: Path, *, pg_dump: int) -> None:
    """Load a dump into the empty database; `pg_dump` is the major version that wrote it.

    The objects belong to the role of this process.  Raises DumpFailed.
    """
    program = find_restorer(pg_dump)
    name = str(connection.settings_dict["NAME"])
    words = [program, *_RESTORE_OPTIONS, *_OWN_OPTIONS, f"--dbname={name}", str(path)]
    # PostgreSQL would wait for the locks of an open transaction of this process.
    connection.close()
    _run(words, stdout=subprocess.DEVNULL)


def find_dumper() -> tuple[str, int]:
    """Return the path and the major version of a pg_dump whose dumps this server can load.

    Raises DumpFailed.
    """
    server = server_major()
    program, major = find("pg_dump", at_least=server)
    if server < _TIMEOUT_SINCE <= major:
        raise DumpFailed(
            f"The server is PostgreSQL {server}, and could not load a dump of pg_dump {major}, the "
            f"only one that is installed.\nHint: apt install postgresql-client-{server}."
        )
    return program, major


def find_restorer(pg_dump: int) -> str:
    """Return the path of a pg_restore for a dump of pg_dump of this major version.

    Raises DumpFailed.
    """
    server = server_major()
    program, major = find("pg_restore", at_least=max(server, pg_dump))
    if server < _TIMEOUT_SINCE <= major:
        raise DumpFailed(
            f"The server is PostgreSQL {server}, and cannot load a dump of pg_dump {pg_dump} by "
            f"pg_restore {major}.\nHint: set DATABASE_URL to a server of version {_TIMEOUT_SINCE} "
            f"or later, or install a pg_restore below {_TIMEOUT_SINCE} that can read the dump."
        )
    return program


def find(name: str, *, at_least: int) -> tuple[str, int]:
    """Return the path and the major version of a program of PostgreSQL.

    The lowest version from `at_least` on is chosen, because a newer pg_restore uses settings that
    an older server does not have.  Raises DumpFailed.
    """
    paths = [path / "bin" / name for path in sorted(_INSTALLED.glob("[0-9]*"))]
    with suppress(EmbeddedPostgresError):
        paths.append(binaries() / name)
    if in_path := shutil.which(name):
        paths.append(Path(in_path))
    versions = [(major, str(path)) for path in paths if path.exists() and (major := _major(path))]
    fitting = [(major, path) for major, path in versions if major >= at_least]
    if not fitting:
        majors = ", ".join(str(major) for major, _ in versions) or "none"
        raise DumpFailed(
            f"There is no {name} of PostgreSQL {at_least} or later; found: {majors}.\n"
            f"Hint: apt install postgresql-client-{at_least}."
        )
    major, path = min(fitting)
    return path, major


def _major(path: Path) -> int:
    done = subprocess.run(  # noqa: S603 - a program of PostgreSQL
        [str(path), "--version"], capture_output=True, text=True, check=False
    )
    number = re.search(r"\(PostgreSQL\) (\d+)", done.stdout)
    return int(number[1]) if number else 0


def _run(words: list[str], *, stdout: int) -> None:
    done = subprocess.run(  # noqa: S603 - a program of PostgreSQL
        words,
        env=os.environ | _libpq_environment(),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise DumpFailed(
            f"{Path(words[0]).name} failed with exit code {done.returncode}: {lines[-1]}\n"
            "Hint: the role of DATABASE_URL must own the database and all its tables."
        )


def _libpq_environment() -> dict[str, str]:
    """Return the environment variables by which libpq's programs connect as this process does.

    Variables are used because `ps` would show a password on the command line.
    """
    parameters = connection.get_connection_params()
    return {
        option.envvar.decode(): str(parameters[option.keyword.decode()])
        for option in pq.Conninfo.get_defaults()
        if option.envvar and parameters.get(option.keyword.decode()) not in (None, "")
    }
