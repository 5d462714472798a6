"""What the database alone can do in this run: pgbench's two simplest workloads."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from statistics import median

import psycopg

from bench.figures import BenchError, Figure
from bench.stage import VAR
from project.embedded_postgres import EmbeddedPostgres, binaries

CLIENTS = 2
#: Half a million rows: they fit in memory, as a project's living rows do.
SCALE = 5
WORKLOADS = {
    "pgbench_select": ("pgbench -S: one select by key", "--select-only"),
    "pgbench_update": ("pgbench -N: a small update, committed", "--skip-some-updates"),
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


def measure(workload: str, *, seconds: int) -> float:
    """Run one workload, with prepared statements as ours are; transactions per second."""
    said = _pgbench(
        WORKLOADS[workload][1],
        "--no-vacuum",
        "--protocol=prepared",
        f"--client={CLIENTS}",
        f"--time={seconds}",
    )
    if (found := re.search(r"tps = ([\d.]+)", said)) is None:
        raise BenchError(f"pgbench said nothing of its speed: {said.strip()[-200:]}")
    return float(found[1])


def figure(workload: str, rates: list[float]) -> Figure:
    """The median of what a workload gave in the course of a run."""
    least, most = min(rates), max(rates)
    return Figure(
        key=workload,
        section=0,
        what=WORKLOADS[workload][0],
        unit="tx/s",
        value=median(rates),
        notes=(
            (
                f"{CLIENTS} clients, scale {SCALE}, prepared statements;"
                f" {len(rates)} times in this run, {least:,.0f} to {most:,.0f}"
            ),
        ),
    )


def drop() -> None:
    """Leave nothing behind."""
    server = {**EmbeddedPostgres(VAR).conninfo(), "dbname": "postgres"}
    with psycopg.connect(**server, autocommit=True) as connection:  # type: ignore[arg-type]
        connection.execute("DROP DATABASE pgbench")


def _pgbench(*options: str) -> str:
    where = EmbeddedPostgres(VAR).libpq_environment() | {"PGDATABASE": "pgbench"}
    done = subprocess.run(
        [program(), *options],
        env=os.environ | where,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchError(f"pgbench failed: {done.stderr.strip()[-200:]}")
    return done.stdout
