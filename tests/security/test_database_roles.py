"""The database roles of docs/database.md have exactly the rights that they need."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from project.embedded_postgres import EmbeddedPostgres
from scheduler.sql import table_rights
from tests.house.tracked import ROOT

# All tests run in one xdist worker, so that the server is started once.
pytestmark = [pytest.mark.xdist_group("database_roles"), pytest.mark.lengthy]

BLOCKS = re.findall(
    r"```sql\n(.*?)```",
    (ROOT / "docs/database.md").read_text().partition("## Database roles")[2],
    re.DOTALL,
)
ROLES = ("manyhands_owner", "manyhands_daemons", "manyhands_web", "manyhands_science")
PASSWORD = "of a test"
REFUSED = psycopg.errors.InsufficientPrivilege


class Database:
    def __init__(self, server):
        self.server = server

    def connect(self, role):
        where = self.server.conninfo() | {"user": role, "password": PASSWORD}
        return psycopg.connect(**where, autocommit=True)

    def run(self, role, *words, password=PASSWORD, source=None, variables=None):
        host = str(self.server.sockets).replace("/", "%2F")
        url = f"postgresql://{role}:{quote(password)}@/manyhands?host={host}"
        return subprocess.run(
            [sys.executable, *([source] if source else ["manage.py"]), *map(str, words)],
            cwd=ROOT,
            env=os.environ
            | {"DATABASE_URL": url, "VAR_DIR": str(self.server.var)}
            | (variables or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def manage(self, role, *words, **options):
        done = self.run(role, *words, **options)
        assert done.returncode == 0, done.stdout[-500:] + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    server = EmbeddedPostgres(tmp_path_factory.mktemp("roles") / "var")
    server.ensure_running()
    try:
        database = Database(server)
        superuser = server.superuser_conninfo()
        with psycopg.connect(**superuser, autocommit=True) as connection:
            connection.execute("DROP DATABASE manyhands")
            for statement in BLOCKS[0].split(";"):
                if statement.strip():
                    connection.execute(statement)
            for _ in range(2):
                words = ("database_roles", "create")
                database.manage(superuser["user"], *words, password=superuser["password"])
            for role in ROLES:
                change = sql.SQL("ALTER ROLE {} PASSWORD {}")
                connection.execute(change.format(sql.Identifier(role), sql.Literal(PASSWORD)))
        database.manage("manyhands_owner", "migrate", "-v0")
        for _ in range(2):
            database.manage("manyhands_owner", "database_roles", "grant")
        yield database
    finally:
        server.stop()


@pytest.mark.parametrize("role", ["web", "daemons", "science"])
def test_role_has_exactly_the_rights_of_the_list(database, role):
    answer = database.manage(f"manyhands_{role}", "database_roles", "check", "--json")
    assert json.loads(answer)["role"] == role
    quiet = database.manage(f"manyhands_{role}", "check", "--deploy", "--database", "default")
    assert "scheduler.W001" not in quiet


def test_a_process_with_too_many_rights_is_warned(database):
    check = database.run("manyhands_owner", "check", "--deploy", "--database", "default")
    assert "(scheduler.W001)" in check.stderr
    assert "owns the tables" in check.stderr
    refused = database.run("manyhands_daemons", "database_roles", "check", "--role", "science")
    assert refused.returncode == 1
    assert "too much: INSERT on workunit" in refused.stderr
    with database.connect("manyhands_owner") as owner:
        owner.execute("GRANT SELECT ON account TO manyhands_science")
        owner.execute("REVOKE SELECT ON workunit FROM manyhands_science")
    changed = database.run("manyhands_science", "database_roles", "check", "--role", "science")
    assert "too much: SELECT on account\n" in changed.stderr
    assert "missing: SELECT on workunit\n" in changed.stderr
    database.manage("manyhands_owner", "database_roles", "grant")
    database.manage("manyhands_science", "database_roles", "check", "--role", "science")


def test_every_table_has_a_decision_about_its_roles(database):
    """A new table needs a row in `scheduler/sql/table_rights.py`."""
    with database.connect("manyhands_owner") as owner:
        query = (ROOT / "scheduler/sql/read_tables.sql").read_text()
        tables = {name for (name,) in owner.execute(query)}
    assert tables == set(table_rights.TABLES)
    with database.connect("manyhands_owner") as owner:
        owner.execute("CREATE TABLE forgotten (x int)")
        try:
            answer = database.manage("manyhands_owner", "database_roles", "grant", "--json")
            assert json.loads(answer)["undecided"] == ["forgotten"]
            with database.connect("manyhands_web") as web, pytest.raises(REFUSED):
                web.execute("SELECT * FROM forgotten")
        finally:
            owner.execute("DROP TABLE forgotten")


def test_fsck_of_a_role_that_may_not_store_its_result_prints_the_reason(database):
    with database.connect("manyhands_owner") as owner:
        count = "SELECT count(*) FROM check_run"
        before = owner.execute(count).fetchone()
        for role in ("web", "daemons"):
            assert "fsck: 0 violations" in database.manage(f"manyhands_{role}", "fsck")
        assert owner.execute(count).fetchone() == (before[0] + 2,)
        owner.execute("REVOKE INSERT ON check_run FROM manyhands_web")
        try:
            done = database.run("manyhands_web", "fsck")
        finally:
            database.manage("manyhands_owner", "database_roles", "grant")
    assert (done.returncode, done.stdout) == (0, "fsck: 0 violations\n")
    reason = "The result was not stored: permission denied for table check_run"
    assert done.stderr.strip().splitlines()[-1] == reason


def test_web_role_serves_requests_and_rpcs_and_daemon_role_runs_the_daemons(database):
    """The web role publishes, submits and answers RPCs; every daemon runs until nothing is due.

    The work includes queues with a limit, a schedule and the balance, a graph, and the pool.
    """
    program = ROOT / "tests/security/role_program.py"
    database.manage("manyhands_web", "publish", source=program)
    database.manage("manyhands_daemons", "run", source=program)
    database.manage("manyhands_web", "compute", source=program)
    database.manage("manyhands_daemons", "run", source=program)
    with database.connect("manyhands_science") as science:
        [[finished]] = science.execute("SELECT count(*) FROM workunit WHERE assimilate_state = 2")
        [[credit]] = science.execute("SELECT sum(total_credit) FROM account")
    assert finished == 3
    assert credit > 0
    with database.connect("manyhands_owner") as owner:
        query = "SELECT kind, not_checked, violations FROM check_run WHERE requested_at IS NOT NULL"
        checks = owner.execute(f"{query} AND ended_at IS NOT NULL").fetchall()
    assert sorted(checks) == [("credit", [], 0), ("fsck", [], 0)]
    database.manage("manyhands_web", "graph", source=program)
    database.manage("manyhands_daemons", "run", source=program)
    database.manage("manyhands_web", "pool", source=program)
    database.manage("manyhands_daemons", "run", source=program)
    with database.connect("manyhands_science") as science:
        query = "SELECT name, canonical_result_id IS NOT NULL, error_mask <> 0 FROM workunit"
        states = {name: state for name, *state in science.execute(query)}
        [[samples]] = science.execute("SELECT count(*) FROM usage_sample")
    assert [states[name] for name in ("first", "second")] == [[True, False]] * 2
    assert [states[name] for name in ("third", "last")] == [[False, True]] * 2
    assert samples == 1
    database.manage("manyhands_daemons", "purge", source=program)
    with database.connect("manyhands_science") as science:
        # Batches of the API keep their workunits until they are retired.
        names = science.execute("SELECT name FROM workunit ORDER BY id").fetchall()
    assert names == [("sum_2",), ("first",), ("second",), ("third",), ("last",)]


def test_letter_of_the_web_role_is_sent_by_the_daemon_role(database):
    program = ROOT / "tests/security/role_program.py"
    mail = {"EMAIL_URL": "smtp://127.0.0.1:9/?tls=none"}
    for role, part in (("web", "letter"), ("daemons", "run")):
        database.manage(f"manyhands_{role}", part, source=program, variables=mail)
    database.manage("manyhands_web", "unsubscribe", source=program, variables=mail)


def test_prints_the_statements_that_it_executes(database):
    printed = database.manage("manyhands_web", "database_roles", "print")
    assert "GRANT SELECT ON " in printed
    with database.connect("manyhands_owner") as owner:
        owner.execute(printed.partition("BEGIN;")[2].removesuffix("COMMIT;\n"))
    database.manage("manyhands_web", "database_roles", "check", "--role", "web")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE mine (x int)",
        "DROP TABLE workunit",
        "ALTER TABLE account ADD COLUMN x int",
        "ALTER TABLE result DISABLE TRIGGER ALL",
        "TRUNCATE workunit",
        "SET ROLE manyhands_owner",
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "UPDATE ledger_entry SET at = at",
        "DELETE FROM ledger_entry",
        "DELETE FROM audit_entry",
        "UPDATE credit_entry SET amount = 1",
        "UPDATE manual_grant SET account_id = 1",
        "UPDATE check_run SET violations = 0",
        "DELETE FROM check_run",
        "INSERT INTO purged_workunits DEFAULT VALUES",
        "DELETE FROM django_migrations",
        "INSERT INTO auth_permission DEFAULT VALUES",
        "CREATE TEMPORARY TABLE mine (x int)",
        "SELECT create_ledger_day('2040-01-01')",
        "SELECT drop_ledger_day('2040-01-01')",
    ],
)
def test_web_role_can_update_rows_but_cannot_change_tables_or_roles(database, statement):
    with database.connect("manyhands_web") as web:
        with pytest.raises(REFUSED):
            web.execute(statement)
        web.execute("UPDATE workunit SET priority = priority")
        web.execute("UPDATE credit_entry SET host_id = host_id")
        web.execute("UPDATE manual_grant SET reason = ''")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE mine (x int)",
        "DROP TABLE workunit",
        "DROP TABLE ledger_entry_default",
        "ALTER TABLE result DISABLE TRIGGER ALL",
        "TRUNCATE workunit",
        "SET ROLE manyhands_owner",
        "SELECT * FROM account",
        "SELECT password FROM account",
        "UPDATE account SET password = ''",
        "UPDATE account SET is_superuser = true",
        "INSERT INTO account DEFAULT VALUES",
        "SELECT * FROM account_key",
        "SELECT * FROM api_token",
        "SELECT * FROM invitation",
        "SELECT * FROM django_session",
        "SELECT answer FROM idempotency_key",
        "SELECT token_hash FROM host_token",
        "INSERT INTO account_groups (account_id, group_id) VALUES (1, 1)",
        "UPDATE audit_entry SET actor = ''",
        "UPDATE credit_entry SET amount = 1",
        "DELETE FROM ledger_entry",
        "INSERT INTO app_version DEFAULT VALUES",
        "UPDATE app_version_file SET signature = ''",
    ],
)
def test_daemons_role_cannot_read_secrets_publish_or_change_tables(database, statement):
    with database.connect("manyhands_daemons") as daemons, pytest.raises(REFUSED):
        daemons.execute(statement)


def test_functions_of_the_ledger_ignore_tables_of_the_caller(database):
    with database.connect("manyhands_daemons") as daemons:
        daemons.execute("SET search_path = pg_temp, public")
        daemons.execute("SELECT create_ledger_day('2040-01-01')")
        query = "SELECT relowner::regrole::text FROM pg_class WHERE relname = %s"
        day = "ledger_entry_20400101"
        assert daemons.execute(query, [day]).fetchall() == [("manyhands_owner",)]
        daemons.execute("SELECT drop_ledger_day('2040-01-01')")
        assert daemons.execute(query, [day]).fetchall() == []


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM account",
        "SELECT * FROM account_key",
        "SELECT * FROM api_token",
        "SELECT * FROM django_session",
        "SELECT * FROM audit_entry",
        "SELECT password FROM account",
        "SELECT email FROM account",
        "SELECT last_ip_addr FROM host",
        "SELECT validator_options FROM app",
        "SELECT * FROM invitation",
        "SELECT * FROM throttle_bucket",
        "SELECT * FROM idempotency_key",
        "DELETE FROM result",
        "SELECT drop_ledger_day('2040-01-01')",
        "UPDATE workunit SET priority = 1",
        "INSERT INTO file DEFAULT VALUES",
        "CREATE TABLE mine (x int)",
        "CREATE TEMPORARY TABLE mine (x int)",
    ],
)
def test_science_role_cannot_read_accounts_or_write(database, statement):
    with (
        database.connect("manyhands_science") as science,
        pytest.raises(REFUSED),
    ):
        science.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE ROLE another LOGIN",
        "ALTER ROLE manyhands_owner SUPERUSER",
        "ALTER ROLE manyhands_owner CREATEROLE",
        "ALTER ROLE manyhands_web PASSWORD 'x'",
        "GRANT manyhands_web TO manyhands_owner",
        "GRANT pg_read_server_files TO manyhands_owner",
        "SET ROLE manyhands_web",
        "SET ROLE manyhands_daemons",
        "SET ROLE manyhands_science",
        "SET SESSION AUTHORIZATION manyhands_web",
        "CREATE DATABASE another",
        "DROP DATABASE postgres",
        "ALTER SYSTEM SET work_mem = '1GB'",
        "SET session_replication_role = 'replica'",
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "COPY django_migrations FROM PROGRAM 'true'",
        "COPY (SELECT 1) TO '/tmp/manyhands_owner.txt'",
        "SELECT pg_read_file('PG_VERSION')",
        "SELECT pg_ls_dir('.')",
        "SELECT lo_import('/etc/passwd')",
        "SELECT rolpassword FROM pg_authid",
        "SELECT pg_reload_conf()",
        "CREATE FUNCTION absolute(int) RETURNS int LANGUAGE c AS 'libc.so.6', 'abs'",
    ],
)
def test_owner_of_the_tables_cannot_change_roles_or_the_server_or_read_its_files(
    database, statement
):
    with database.connect("manyhands_owner") as owner:
        with pytest.raises(REFUSED):
            owner.execute(statement)
        owner.execute("SELECT 1 FROM workunit")


def test_owner_of_the_tables_cannot_become_the_superuser(database):
    superuser = database.server.superuser_conninfo()["user"]
    change = sql.SQL("SET ROLE {}").format(sql.Identifier(superuser))
    with database.connect("manyhands_owner") as owner, pytest.raises(REFUSED):
        owner.execute(change)
    query = (
        "SELECT rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls"
        " FROM pg_roles WHERE rolname = current_user"
    )
    with database.connect("manyhands_owner") as owner:
        assert owner.execute(query).fetchone() == (False,)
        memberships = owner.execute(
            "SELECT r.rolname FROM pg_auth_members AS m INNER JOIN pg_roles AS r ON r.oid = m.roleid"
            " WHERE m.member = 'manyhands_owner'::regrole"
        )
        assert memberships.fetchall() == []
