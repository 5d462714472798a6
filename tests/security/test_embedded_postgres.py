"""The embedded PostgreSQL admits its own project and no other user of the machine."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from daemons.management.processes import wait_until
from project import database_owner
from project.embedded_postgres import EmbeddedPostgres, EmbeddedPostgresError
from tests.security.other_users import NOBODY, STRANGER, needs_root, run_as

# All tests run in one xdist worker, so that the server is started once.
pytestmark = [pytest.mark.xdist_group("embedded_postgres"), pytest.mark.lengthy]

#: SQL by which a superuser could access the machine outside the database.
WAYS_OUT = {
    "a shell command": "COPY (SELECT 1) TO PROGRAM 'true'",
    "a file is written": "COPY (SELECT 1) TO '/tmp/written'",
    "a file is read": "SELECT pg_read_file('PG_VERSION')",
    "a folder is listed": "SELECT pg_ls_dir('.')",
    "a large object is exported": "SELECT lo_export(lo_from_bytea(0, 'x'), '/tmp/exported')",
    "the role becomes a superuser": "ALTER ROLE CURRENT_USER SUPERUSER",
    "another role is made": "CREATE ROLE another LOGIN",
    "the server is configured": "ALTER SYSTEM SET archive_command = 'true'",
    "code is loaded": "CREATE FUNCTION f() RETURNS int AS 'libc', 'getpid' LANGUAGE c",
    "passwords are read": "SELECT rolpassword FROM pg_authid",
}


@pytest.fixture(scope="module")
def reachable():
    """A folder that every user may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="manyhands-test-"))
    folder.chmod(0o755)
    yield folder
    for data in folder.glob("**/postgres"):
        EmbeddedPostgres(data.parent).stop()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server(reachable):
    server = EmbeddedPostgres(reachable / "var")
    server.ensure_running()
    return server


def connect(server, **changes):
    return psycopg.connect(**(server.conninfo() | changes), autocommit=True)


def status(server, field):
    postgres = server.running()
    lines = Path(f"/proc/{postgres.pid}/status").read_text().splitlines()
    return next(line.split()[1:] for line in lines if line.startswith(f"{field}:"))


# The user that the server runs as


@needs_root
def test_server_started_by_root_runs_as_its_own_user(server):
    (uid, *others) = status(server, "Uid")
    assert pwd.getpwuid(int(uid)).pw_name == "manyhands-postgres"
    assert set(others) == {uid}
    assert status(server, "Groups") in ([], [str(pwd.getpwuid(int(uid)).pw_gid)])


@pytest.mark.parametrize("sort", ["CapEff", "CapPrm", "CapInh", "CapAmb"])
def test_server_process_has_no_capabilities(server, sort):
    assert int(status(server, sort)[0], 16) == 0


def test_server_in_a_folder_that_only_root_can_enter_has_no_capabilities(tmp_path):
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    server = EmbeddedPostgres(private / "var")
    try:
        server.ensure_running()
        assert int(status(server, "CapEff")[0], 16) == int(status(server, "CapAmb")[0], 16) == 0
        with connect(server) as connection:
            connection.execute("CREATE TABLE kept AS SELECT generate_series(1, 10000)")
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        assert server.stop()
        server.ensure_running()
        with connect(server) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (10000,)
    finally:
        server.stop()


def test_server_environment_contains_no_project_secrets(reachable, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    server = EmbeddedPostgres(reachable / "scrubbed")
    postgres = server.ensure_running()
    assert b"hush" not in Path(f"/proc/{postgres.pid}/environ").read_bytes()


# Connections


@needs_root
@pytest.mark.parametrize("uid", [NOBODY, STRANGER])
def test_another_user_cannot_connect(server, uid):
    # The folder of the socket keeps others out, even those who know the password.
    everything = server.conninfo()
    answer = run_as(uid, lambda: psycopg.connect(**everything).execute("SELECT 1").fetchone())
    assert "OperationalError" in answer


@needs_root
@pytest.mark.parametrize("uid", [NOBODY, STRANGER])
def test_another_user_cannot_read_data_or_passwords(server, uid):
    secrets = [server.data / "PG_VERSION", server.data / "global", server.sockets, server.log]
    secrets += list((server.var / "keys").iterdir())
    assert len(secrets) > 4, "no passwords are kept"

    def attempt():
        return [str(path) for path in secrets if os.access(path, os.R_OK)]

    assert run_as(uid, attempt) == []


@pytest.mark.parametrize("user", ["manyhands", "postgres"])
@pytest.mark.parametrize("password", ["", "guessed"])
def test_connections_without_the_password_are_refused(server, user, password):
    with pytest.raises(psycopg.OperationalError, match=r"password"):
        connect(server, user=user, password=password, dbname="postgres").close()


# Rights of the project's role


@pytest.mark.parametrize("way", WAYS_OUT)
def test_project_role_cannot_access_files_programs_or_server_settings(server, way):
    with (
        connect(server) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(WAYS_OUT[way])


def test_project_role_owns_the_project_database(server):
    with connect(server) as connection:
        owner = connection.execute(
            "SELECT datdba::regrole::text FROM pg_database WHERE datname = current_database()"
        ).fetchone()
    assert owner == ("manyhands",)


# Actions of root in folders of the other user


@needs_root
def test_root_does_not_follow_links_in_the_data_folder(reachable):
    server = EmbeddedPostgres(reachable / "links")
    server.ensure_running()
    server.stop()
    precious = reachable / "precious"
    precious.write_text("precious")
    precious.chmod(0o600)
    owner = server.data.stat().st_uid
    for name in ("manyhands.conf.new", "pg_hba.conf.new", "manyhands.conf"):
        (server.data / name).unlink(missing_ok=True)
        (server.data / name).symlink_to(precious)
        os.chown(server.data / name, owner, owner, follow_symlinks=False)
    with suppress(EmbeddedPostgresError):
        server.ensure_running()
    assert precious.read_text() == "precious"
    assert (precious.stat().st_uid, stat.S_IMODE(precious.stat().st_mode)) == (0, 0o600)


# An ordinary user


def reachable_programs():
    """A copy of PostgreSQL's programs that every user can run, even if this clone is root's."""
    if os.geteuid():
        return database_owner.binaries()
    group = pwd.getpwuid(NOBODY).pw_gid
    return database_owner.binaries_for(database_owner.DataOwner(uid=NOBODY, gid=group))


@needs_root
def test_server_of_an_unprivileged_user_accepts_only_that_user(reachable, monkeypatch):
    home = reachable / "home"
    home.mkdir(mode=0o755)
    os.chown(home, NOBODY, NOBODY)
    programs = reachable_programs()
    monkeypatch.setattr(database_owner, "binaries", lambda: programs)
    server = EmbeddedPostgres(home / "var")
    try:
        assert run_as(NOBODY, lambda: server.ensure_running().ready) is True
        assert status(server, "Uid") == [str(NOBODY)] * 4
        right = server.conninfo()
        wrong = right | {"password": "guessed"}
        ask = "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"

        def attempt(conninfo):
            return lambda: psycopg.connect(**conninfo).execute(ask).fetchone()

        assert "OperationalError" in run_as(STRANGER, attempt(right))
        # Confined code of the same user may reach the socket, but not the password.
        assert "OperationalError" in run_as(NOBODY, attempt(wrong))
        assert run_as(NOBODY, attempt(right)) == (False,)
    finally:
        run_as(NOBODY, server.stop)


# Data of an earlier version

EARLIER = """
CREATE TABLE workunits (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, name text);
CREATE TABLE ledger (id bigserial, day date NOT NULL) PARTITION BY RANGE (day);
CREATE TABLE ledger_today PARTITION OF ledger FOR VALUES FROM ('2026-01-01') TO ('2026-01-02');
CREATE SEQUENCE alone;
CREATE VIEW names AS SELECT name FROM workunits;
CREATE MATERIALIZED VIEW counted AS SELECT count(*) FROM workunits;
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE TYPE pair AS (a int, b int);
CREATE DOMAIN positive AS int CHECK (value > 0);
CREATE SCHEMA other;
CREATE TABLE other."Mixed ""Case" (x int);
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TRIGGER guard BEFORE UPDATE ON workunits FOR EACH ROW EXECUTE FUNCTION refuse();
INSERT INTO workunits (name) SELECT 'w' || g FROM generate_series(1, 1000) AS g;
INSERT INTO ledger (day) VALUES ('2026-01-01');
"""


@pytest.fixture
def earlier(reachable):
    """Data of an earlier version: `trust` authentication, one superuser, owner `nobody` or us."""
    var = Path(tempfile.mkdtemp(prefix="earlier-", dir=reachable))
    var.chmod(0o755)
    data = var / "postgres"
    data.mkdir(mode=0o700)
    kwargs = {}
    if os.geteuid() == 0:
        os.chown(data, NOBODY, NOBODY)
        kwargs = {"user": NOBODY, "group": pwd.getpwuid(NOBODY).pw_gid, "extra_groups": []}
    programs = reachable_programs()
    words = [programs / "initdb", "-D", data, "--username", "manyhands", "--auth=trust"]
    words += ["--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"]
    subprocess.run(words, check=True, capture_output=True, cwd="/", **kwargs)
    with (data / "postgresql.conf").open("a") as file:
        file.write("\ninclude_if_exists = 'manyhands.conf'\n")
    # Not in single-user mode: objects created there get ids in PostgreSQL's own range.
    words = [programs / "postgres", "-D", data, "-c", "listen_addresses="]
    options = ["-c", f"unix_socket_directories={data}", "-c", "fsync=off"]
    running = subprocess.Popen([*words, *options], stderr=subprocess.DEVNULL, cwd="/", **kwargs)
    try:
        where = {"host": str(data), "user": "manyhands", "autocommit": True}
        assert wait_until(lambda: answers(where), within=30)
        with psycopg.connect(**where, dbname="postgres") as connection:
            connection.execute("CREATE DATABASE manyhands")
            connection.execute("CREATE DATABASE test_manyhands_1")
        with psycopg.connect(**where, dbname="manyhands") as connection:
            connection.execute(EARLIER)
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(30)
    return EmbeddedPostgres(var)


def answers(where):
    with suppress(psycopg.OperationalError):
        psycopg.connect(**where, dbname="postgres").close()
        return True
    return False


def test_data_of_an_earlier_version_are_converted_in_place_without_loss(earlier):
    earlier.ensure_running()
    with connect(earlier) as connection:
        one = lambda statement: connection.execute(statement).fetchone()  # noqa: E731
        assert one("SELECT count(*), max(name) FROM workunits") == (1000, "w999")
        assert one("SELECT rolsuper FROM pg_roles WHERE rolname = current_user") == (False,)
        # The role owns all objects, so migrations can change them.
        connection.execute("ALTER TABLE workunits ADD COLUMN added int")
        connection.execute("ALTER TABLE ledger ADD COLUMN added int")
        connection.execute("DROP TABLE ledger_today")
        connection.execute("ALTER SEQUENCE alone RESTART WITH 5")
        connection.execute("REFRESH MATERIALIZED VIEW counted")
        connection.execute("ALTER TYPE mood ADD VALUE 'so-so'")
        connection.execute("ALTER TYPE pair ADD ATTRIBUTE c int")
        connection.execute("ALTER DOMAIN positive DROP NOT NULL")
        connection.execute('DROP TABLE other."Mixed ""Case"')
        connection.execute("DROP SCHEMA other")
        connection.execute("INSERT INTO workunits (name) VALUES ('one more')")
        connection.execute("DROP FUNCTION refuse() CASCADE")
        connection.execute("DROP VIEW names")
        left = connection.execute(
            "SELECT oid::regclass::text FROM pg_class WHERE oid >= 16384 AND relowner <> "
            "(SELECT oid FROM pg_roles WHERE rolname = current_user) "
            "AND relnamespace <> 'pg_toast'::regnamespace"
        ).fetchall()
        assert left == []
        connection.execute("DROP DATABASE test_manyhands_1")
        for statement in WAYS_OUT.values():
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
    with pytest.raises(psycopg.OperationalError, match="password"):
        connect(earlier, password="", user="manyhands").close()


def test_two_processes_convert_a_running_earlier_server_once(earlier):
    programs = reachable_programs()
    kwargs = {"user": NOBODY, "group": pwd.getpwuid(NOBODY).pw_gid} if os.geteuid() == 0 else {}
    words = [programs / "postgres", "-D", earlier.data, "-c", "listen_addresses="]
    options = ["-c", f"unix_socket_directories={earlier.data}", "-c", "fsync=off"]
    running = subprocess.Popen([*words, *options], stderr=subprocess.DEVNULL, cwd="/", **kwargs)
    assert wait_until(lambda: answers({"host": str(earlier.data), "user": "manyhands"}), within=30)

    with ThreadPoolExecutor(2) as pool:
        converted = sorted(pool.map(lambda _: earlier.convert(), range(2)))

    assert converted == [False, True]
    assert running.wait(30) == 0, "the earlier server was stopped"
    with connect(earlier) as connection:
        assert connection.execute("SELECT count(*) FROM workunits").fetchone() == (1000,)


@needs_root
def test_conversion_changes_the_owner_of_earlier_data_to_the_new_user(earlier):
    earlier.ensure_running()
    owners = {
        path.lstat().st_uid for path in [earlier.data, earlier.sockets, *earlier.data.rglob("*")]
    }
    assert owners == {pwd.getpwnam("manyhands-postgres").pw_uid}


@needs_root
def test_targets_of_links_in_earlier_data_keep_their_owner(earlier):
    precious = earlier.var / "precious"
    precious.write_text("precious")
    os.link(precious, earlier.data / "hard")
    (earlier.data / "soft").symlink_to(precious)
    earlier.ensure_running()
    assert precious.stat().st_uid == 0


def test_server_starts_with_converted_data_after_password_files_are_deleted(earlier):
    earlier.ensure_running()
    earlier.stop()
    for password in (earlier.var / "keys").glob("postgres*"):
        password.unlink()  # as in a copy of the data without the keys
    earlier.ensure_running()
    with connect(earlier) as connection:
        assert connection.execute("SELECT count(*) FROM workunits").fetchone() == (1000,)
