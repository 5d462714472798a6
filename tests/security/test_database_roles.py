"""The database roles of docs/database.md have exactly the rights that they need."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import psycopg
import pytest
from psycopg import sql

from project.embedded_postgres import EmbeddedPostgres
from tests.house.tracked import ROOT

# All tests run in one xdist worker, so that the server is started once.
pytestmark = pytest.mark.xdist_group("database_roles")

BLOCKS = re.findall(
    r"```sql\n(.*?)```",
    (ROOT / "docs/database.md").read_text().partition("## Database roles")[2],
    re.DOTALL,
)
ROLES = ("manyhands_owner", "manyhands_daemons", "manyhands_web", "manyhands_science")
PASSWORD = "of a test"


class Database:
    def __init__(self, server):
        self.server = server

    def connect(self, role):
        where = self.server.conninfo() | {"user": role, "password": PASSWORD}
        return psycopg.connect(**where, autocommit=True)

    def manage(self, role, *words):
        host = str(self.server.sockets).replace("/", "%2F")
        url = f"postgresql://{role}:{PASSWORD.replace(' ', '%20')}@/manyhands?host={host}"
        done = subprocess.run(
            [sys.executable, "manage.py", *map(str, words)],
            cwd=ROOT,
            env=os.environ | {"DATABASE_URL": url, "VAR_DIR": str(self.server.var)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    server = EmbeddedPostgres(tmp_path_factory.mktemp("roles") / "var")
    server.ensure_running()
    try:
        database = Database(server)
        with psycopg.connect(**server.superuser_conninfo(), autocommit=True) as superuser:
            superuser.execute("DROP DATABASE manyhands")
            for statement in re.sub(r"--.*", "", BLOCKS[0]).split(";"):
                if statement.strip():
                    superuser.execute(statement)
            for role in ROLES:
                change = sql.SQL("ALTER ROLE {} PASSWORD {}")
                superuser.execute(change.format(sql.Identifier(role), sql.Literal(PASSWORD)))
        with database.connect("manyhands_owner") as owner:
            owner.execute(BLOCKS[1])
        database.manage("manyhands_owner", "migrate", "-v0")
        with database.connect("manyhands_owner") as owner:
            owner.execute(BLOCKS[2])
        yield database
    finally:
        server.stop()


def test_web_role_can_submit_work_and_daemon_role_can_run_the_daemons(database, tmp_path):
    (tmp_path / "in").write_text("3 5 7\n")
    source = ROOT / "demo" / "mersenne.py"
    words = ("publish_app", "mersenne", "1.00", "x86_64-pc-linux-gnu", source, "--create-app")
    database.manage("manyhands_web", *words)
    database.manage("manyhands_web", "submit_work", "mersenne", tmp_path / "in")
    for daemon in ("transitioner", "timeout_checker", "purger", "housekeeper"):
        database.manage("manyhands_daemons", daemon, "--once")
    with database.connect("manyhands_science") as science:
        assert science.execute("SELECT count(*) FROM workunit").fetchone() == (1,)
        results = science.execute("SELECT count(*) FROM result").fetchone()
    assert results > (0,)


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
    ],
)
def test_web_role_can_update_rows_but_cannot_change_tables_or_roles(database, statement):
    with database.connect("manyhands_web") as web:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            web.execute(statement)
        web.execute("UPDATE workunit SET priority = priority")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM account",
        "SELECT * FROM account_key",
        "SELECT * FROM api_token",
        "SELECT * FROM django_session",
        "SELECT * FROM audit_entry",
        "UPDATE workunit SET priority = 1",
        "INSERT INTO file DEFAULT VALUES",
        "CREATE TABLE mine (x int)",
        "CREATE TEMPORARY TABLE mine (x int)",
    ],
)
def test_science_role_cannot_read_accounts_or_write(database, statement):
    with (
        database.connect("manyhands_science") as science,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        science.execute(statement)
