"""Measures the database alone with two simple workloads of pgbench."""

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
#: 500 000 rows: they fit in memory, like the active rows of a project.
SCALE = 5
WORKLOADS = {
    "pgbench_select": ("pgbench -S: one select by key", "--select-only"),
    "pgbench_update": ("pgbench -N: a small update, committed", "--skip-some-updates"),
}


def program() -> str:
    """Return the path of pgbench; raise BenchError if it is not installed.

    The program of the embedded PostgreSQL is preferred to that of the system.
    """
    beside = binaries() / "pgbench"
    path = str(beside) if beside.is_file() else shutil.which("pgbench")
    if path is None:
        raise BenchError("pgbench was not found. Hint: apt install postgresql-contrib.")
    return path


def fill() -> None:
    """Create pgbench's tables in a separate database."""
    server = {**EmbeddedPostgres(VAR).conninfo(), "dbname": "postgres"}
    with psycopg.connect(**server, autocommit=True) as connection:  # type: ignore[arg-type]
        connection.execute("CREATE DATABASE pgbench")
    _pgbench("--initialize", "--quiet", f"--scale={SCALE}")


def measure(workload: str, *, seconds: int) -> float:
    """Run a workload with prepared statements; return the rate in transactions per second."""
    output = _pgbench(
        WORKLOADS[workload][1],
        "--no-vacuum",
        "--protocol=prepared",
        f"--client={CLIENTS}",
        f"--time={seconds}",
    )
    if (match := re.search(r"tps = ([\d.]+)", output)) is None:
        raise BenchError(f"The output of pgbench has no rate: {output.strip()[-200:]}")
    return float(match[1])


def figure(workload: str, rates: list[float]) -> Figure:
    """Return the figure of a workload, which is the median of its rates in a run."""
    lowest, highest = min(rates), max(rates)
    return Figure(
        key=workload,
        section=0,
        what=WORKLOADS[workload][0],
        unit="tx/s",
        value=median(rates),
        notes=(
            (
                f"{CLIENTS} clients, scale {SCALE}, prepared statements;"
                f" {len(rates)} times in this run, {lowest:,.0f} to {highest:,.0f}"
            ),
        ),
    )


def drop() -> None:
    """Drop pgbench's database."""
    server = {**EmbeddedPostgres(VAR).conninfo(), "dbname": "postgres"}
    with psycopg.connect(**server, autocommit=True) as connection:  # type: ignore[arg-type]
        connection.execute("DROP DATABASE pgbench")


def _pgbench(*options: str) -> str:
    environment = EmbeddedPostgres(VAR).libpq_environment() | {"PGDATABASE": "pgbench"}
    completed = subprocess.run(
        [program(), *options],
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if completed.returncode:
        raise BenchError(f"pgbench failed: {completed.stderr.strip()[-200:]}")
    return completed.stdout
