"""Creates the two roles of the embedded PostgreSQL, each with a password.

`manyhands` is the project's role: it owns the project's database and may create others (tests do).
It is not a superuser, so its SQL cannot run commands, read files or change the server.
`postgres` is the superuser, for operators and for conversions. The passwords are random, and kept
in VAR_DIR/keys, which science code and other users cannot read.

Earlier versions had one superuser, `manyhands`, and trusted every process that reached the socket.
Their data are converted when the server starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from project import keys
from project.database_owner import DataOwner, EmbeddedPostgresError, last_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

USER = DATABASE = "manyhands"
SUPERUSER = "postgres"

ACCESS_FILE = "pg_hba.conf"
ACCESS_HEADER = "# Written by Manyhands at every start: a password, over the socket only.\n"
#: An operator's lines come first, because PostgreSQL uses the first matching line.
EXTRA_ACCESS_FILE = "pg_hba_extra.conf"
ACCESS = f"""\
{ACCESS_HEADER}# Lines of your own: {EXTRA_ACCESS_FILE}
include_if_exists {EXTRA_ACCESS_FILE}
local all all scram-sha-256
local replication {SUPERUSER} scram-sha-256
"""

#: Renames the superuser of `initdb` to `postgres`. A session's own user cannot be renamed, so a
#: temporary superuser renames it.
RENAME_SUPERUSER = f"""\
DO $$
DECLARE former text := (SELECT rolname FROM pg_authid WHERE oid = 10);
BEGIN
    IF former <> '{SUPERUSER}' THEN
        CREATE ROLE manyhands_conversion SUPERUSER;
        SET SESSION AUTHORIZATION manyhands_conversion;
        EXECUTE format('ALTER ROLE %I RENAME TO {SUPERUSER}', former);
        SET SESSION AUTHORIZATION {SUPERUSER};
        DROP ROLE manyhands_conversion;
    END IF;
END $$"""  # noqa: S608 - constant names

#: Gives the superuser's objects in a database, except PostgreSQL's own
#: (below 16384) and those of extensions, to the project's role.
GIVE_OBJECTS = f"""\
DO $$
DECLARE statement text;
BEGIN
    FOR statement IN
        SELECT format('ALTER SCHEMA %I OWNER TO {USER}', n.nspname)
        FROM pg_namespace AS n
        WHERE n.nspowner = 10 AND n.oid >= 16384 AND n.nspname !~ '^pg_'
        UNION ALL
        SELECT format('ALTER TABLE %s OWNER TO {USER}', c.oid::regclass)
        FROM pg_class AS c
        WHERE c.relowner = 10 AND c.oid >= 16384 AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
            AND c.relnamespace <> 'pg_toast'::regnamespace
            AND NOT EXISTS (
                SELECT FROM pg_depend AS d
                WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                    AND (d.deptype = 'e' OR c.relkind = 'S' AND d.deptype IN ('a', 'i'))
            )
        UNION ALL
        SELECT format('ALTER TYPE %s OWNER TO {USER}', t.oid::regtype)
        FROM pg_type AS t
        LEFT JOIN pg_class AS c ON c.oid = t.typrelid
        WHERE t.typowner = 10 AND t.oid >= 16384
            AND (t.typtype IN ('e', 'd', 'r') OR t.typtype = 'c' AND c.relkind = 'c')
            AND NOT EXISTS (
                SELECT FROM pg_depend AS d
                WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e'
            )
        UNION ALL
        SELECT format('ALTER ROUTINE %s OWNER TO {USER}', p.oid::regprocedure)
        FROM pg_proc AS p
        WHERE p.proowner = 10 AND p.oid >= 16384
            AND NOT EXISTS (
                SELECT FROM pg_depend AS d
                WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid
                    AND d.deptype IN ('e', 'i')
            )
        UNION ALL
        SELECT format('ALTER LARGE OBJECT %s OWNER TO {USER}', l.oid)
        FROM pg_largeobject_metadata AS l
        WHERE l.lomowner = 10
    LOOP
        EXECUTE statement;
    END LOOP;
END $$"""  # noqa: S608 - constant names

DATABASES_TO_GIVE = """\
SELECT datname, datdba = 10 FROM pg_database
WHERE datallowconn AND NOT datistemplate AND datname <> 'postgres' ORDER BY datname
"""


def password(keys_folder: Path, role: str) -> str:
    """Return the role's password, which the first call creates.  Raises OSError."""
    return keys.secret(keys_folder / f"{role}_password")


def is_open(data: Path) -> bool:
    """Return whether an earlier version created the data; its server requires no password."""
    try:
        return not (data / ACCESS_FILE).read_text(encoding="utf-8").startswith(ACCESS_HEADER)
    except OSError:
        return False


def restrict_access(data: Path, owner: DataOwner) -> None:
    """Write pg_hba.conf.  The file of an earlier version is renamed to pg_hba.conf.old.

    Raises EmbeddedPostgresError.
    """
    if is_open(data):
        kept = owner.run(["mv", "-f", ACCESS_FILE, f"{ACCESS_FILE}.old"], cwd=data)
        if kept.returncode:
            raise EmbeddedPostgresError(
                f"{data / ACCESS_FILE} could not be renamed: {kept.stderr.strip()}\n"
                f"Hint: check that all files in {data} belong to one user."
            )
    owner.write(data, ACCESS_FILE, ACCESS)


def reset_superuser(data: Path, owner: DataOwner, postgres: Path, secret: str) -> None:
    """Set the superuser's name and password.  Raises EmbeddedPostgresError.

    The server must not run, because PostgreSQL's single-user mode is used.  This mode needs no
    password, and recovers the data if the server was killed.
    """
    options = ["-c", "exit_on_error=on", "-c", "log_min_error_statement=panic"]
    # A statement ends with a semicolon and an empty line (-j).
    script = f"{RENAME_SUPERUSER};\n\nALTER ROLE {SUPERUSER} LOGIN PASSWORD '{secret}';\n\n"
    done = owner.run(
        [str(postgres), "--single", "-j", *options, "-D", "/proc/self/cwd", "postgres"],
        cwd=data,
        stdin=script,
    )
    if done.returncode:
        raise EmbeddedPostgresError(
            f"The roles in {data} could not be set: {last_line(done.stderr)}\n"
            "Hint: stop other servers on these data, or set DATABASE_URL to another server."
        )


def is_settled(project: Mapping[str, str]) -> bool:
    """Return whether the project's role can connect to its database and is not a superuser.

    `project` contains libpq's parameters for this role.
    """
    statement = "SELECT NOT rolsuper FROM pg_roles WHERE rolname = current_user"
    try:
        with psycopg.connect(**project) as connection:  # type: ignore[arg-type]
            return connection.execute(statement).fetchone() == (True,)
    except psycopg.OperationalError:
        return False


def can_connect(conninfo: Mapping[str, str]) -> bool:
    try:
        psycopg.connect(**conninfo).close()  # type: ignore[arg-type]
    except psycopg.OperationalError:
        return False
    return True


def settle(superuser: Mapping[str, str], secret: str) -> None:
    """Create the project's role, set its rights, and make it the owner of its databases.

    `superuser` contains libpq's parameters for the superuser, and `secret` is the role's password.
    The role also becomes the owner of the objects in these databases.  It gets the right to log in
    last, so that an interrupted conversion is repeated.
    """
    role = sql.Identifier(USER)
    with psycopg.connect(**superuser, autocommit=True) as connection:  # type: ignore[arg-type]
        role_row = connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [USER])
        if role_row.fetchone() is None:
            connection.execute(sql.SQL("CREATE ROLE {}").format(role))
        rights = "NOLOGIN NOSUPERUSER NOCREATEROLE NOREPLICATION NOBYPASSRLS CREATEDB"
        connection.execute(sql.SQL(f"ALTER ROLE {{}} {rights}").format(role))
        databases = connection.execute(DATABASES_TO_GIVE).fetchall()
        for name, is_superusers in databases:
            if is_superusers:
                statement = sql.SQL("ALTER DATABASE {} OWNER TO {}")
                connection.execute(statement.format(sql.Identifier(name), role))
            with psycopg.connect(**{**superuser, "dbname": name}) as inside:
                inside.execute(GIVE_OBJECTS)
        if DATABASE not in {name for name, _ in databases}:
            create = sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(DATABASE), role)
            connection.execute(create)
        # Only the verifier is sent to the server, so that its log does not contain the password.
        verifier = connection.pgconn.encrypt_password(secret.encode(), USER.encode()).decode()
        login = sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(verifier))
        connection.execute(login)
