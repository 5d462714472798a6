"""What the database alone can do in this run: pgbench's two simplest workloads."""

from __future__ import annotations

import re
import shutil
import subprocess

import psycopg

from bench.figures import BenchError, Figure
from bench.stage import VAR
from project.embedded_postgres import EmbeddedPostgres, binaries

CLIENTS = 2
#: Half a million rows: they fit in memory, as a project's living rows do.
SCALE = 5
WORKLOADS = {
    "pgbench_select": ("pgbench -S: one select by key", "--select-only"),
    "pgbench_update": ("pgbench -N: update, select, insert, commit", "--skip-some-updates"),
}


def program() -> str:
    """The pgbench beside the embedded PostgreSQL, else the system's."""
    beside = binaries() / "pgbench"
    found = str(beside) if beside.is_file() else shutil.which("pgbench")
    if found is None:
        raise BenchError("There is no pgbench. Hint: apt install postgresql-contrib.")
    return found


def fill() -> None:
    """Make pgbench's tables in a database of their own."""
    server = {**EmbeddedPostgres(VAR).conninfo(), "dbname": "postgres"}
    with psycopg.connect(**server, autocommit=True) as connection:  # type: ignore[arg-type]
        connection.execute("CREATE DATABASE pgbench")
    _pgbench("--initialize", "--quiet", f"--scale={SCALE}")


def measure(key: str, *, seconds: int) -> Figure:
    """Run one workload, with prepared statements as ours are."""
    what, option = WORKLOADS[key]
    said = _pgbench(
        option, "--no-vacuum", "--protocol=prepared", f"--client={CLIENTS}", f"--time={seconds}"
    )
    found = re.search(r"actually processed: (\d+)", said), re.search(r"tps = ([\d.]+)", said)
    done, tps = found
    if done is None or tps is None:
        raise BenchError(f"pgbench said nothing of its speed: {said.strip()[-200:]}")
    count = int(done[1])
    return Figure(
        key=key,
        what=what,
        unit="transactions",
        count=count,
        seconds=count / float(tps[1]),
        notes=(f"pgbench: {CLIENTS} clients, scale {SCALE}, prepared statements",),
    )


def drop() -> None:
    """Leave nothing for autovacuum to look after."""
    server = {**EmbeddedPostgres(VAR).conninfo(), "dbname": "postgres"}
    with psycopg.connect(**server, autocommit=True) as connection:  # type: ignore[arg-type]
        connection.execute("DROP DATABASE pgbench")


def _pgbench(*options: str) -> str:
    server = EmbeddedPostgres(VAR).conninfo()
    where = [f"--host={server['host']}", f"--port={server['port']}"]
    where += [f"--username={server['user']}", "pgbench"]
    done = subprocess.run(
        [program(), *options, *where],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchError(f"pgbench failed: {done.stderr.strip()[-200:]}")
    return done.stdout
