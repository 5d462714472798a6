"""Runs the parts of the benchmark in order, and prints the tables at the end."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import django
import psycopg
from django.core.management import call_command
from django.db import connection, connections
from django.utils import timezone
from rich.console import Console

from bench import (
    PARTS,
    claims,
    compare,
    crowd,
    latency,
    passes,
    pgbench,
    pipeline,
    rpc,
    statements,
    submission,
    table,
)
from bench.figures import BenchError, Figure, Run
from bench.show import Show
from bench.sizes import Size
from bench.stage import FOLDER, VAR, Stage
from project.embedded_postgres import EmbeddedPostgres
from scheduler import signing

#: The width of tables if the output is not a terminal; characters.
COLUMNS = 120


def perform(stage: Stage, *, parts: Iterable[str], size: Size, also: Path | None) -> int:
    """Measure the parts, print the tables and store the figures.

    Returns the exit status, which is 1 if a part failed.  The figures are also written to the file
    `also`.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=COLUMNS)
    return BenchRun(stage, size, console).perform(set(parts), also)


class BenchRun:
    """A run of the benchmark."""

    def __init__(self, stage: Stage, size: Size, console: Console) -> None:
        self._stage, self._size, self._console = stage, size, console
        self._show = Show(console)

    def perform(self, parts: set[str], also: Path | None) -> int:
        began = time.monotonic()
        crowd.build()
        EmbeddedPostgres(VAR).convert()
        call_command("migrate", verbosity=0, interactive=False)
        EmbeddedPostgres(VAR).grant_parameters("session_replication_role")
        signing.ensure_keys()
        at = timezone.now().isoformat(timespec="seconds")
        self._run = Run(at=at, size=self._size.name, machine=_machine())
        chosen = [part for part in PARTS if part in parts]
        # pgbench runs before, between and after the parts, which are compared with it.
        pgbench.fill()
        self._pgbench()
        for place, part in enumerate(chosen):
            if time.monotonic() - began > self._size.latest_start_seconds:
                self._fail(f"{part}: skipped, {self._size.latest_start_seconds:.0f} s have passed")
                continue
            self._part(part)
            if place % 2 or part == chosen[-1]:
                self._pgbench()
        pgbench.drop()
        connections.close_all()
        figures = [pgbench.figure(*rates) for rates in self._run.pgbench.items()]
        self._run.figures[:0] = figures
        self._run.took_seconds = time.monotonic() - began
        before = compare.last(FOLDER, size=self._size.name)
        table.show(self._run, before, self._console)
        compare.store(self._run, FOLDER, also)
        return 1 if self._run.failures else 0

    def _part(self, part: str) -> None:
        measure: dict[str, Callable[[], None]] = {
            "rpc": self._rpc,
            "uploads": self._uploads,
            "passes": self._passes,
            "claims": self._claims,
            "pipeline": self._pipeline,
            "latency": self._latency,
            "statements": self._statements,
        }
        try:
            measure[part]()
        except (BenchError, django.db.Error, psycopg.Error, RuntimeError, OSError) as error:
            self._fail(f"{part}: {type(error).__name__}: {error}")

    def _fail(self, failure: str) -> None:
        self._run.failures.append(failure)
        self._show.print_line(f"FAILED {failure}")

    def _add(self, figures: Iterable[Figure]) -> None:
        for figure in figures:
            self._run.figures.append(figure)
            self._show.figure(figure)

    def _pgbench(self) -> None:
        for workload in pgbench.WORKLOADS:
            rate = pgbench.measure(workload, seconds=self._size.pgbench_seconds)
            self._run.pgbench.setdefault(workload, []).append(rate)

    def _rpc(self) -> None:
        size, stage, show = self._size, self._stage, self._show
        self._add(
            rpc.measure_all(
                seconds=size.rpc_seconds,
                unsent_by_results=size.rpc_unsent,
                crowds=size.rpc_crowds,
                stage=stage,
                show=show,
            )
        )

    def _uploads(self) -> None:
        size, stage, show = self._size, self._stage, self._show
        for fresh, synced in ((False, False), (True, False), (False, True)):
            if synced <= size.synced_uploads:
                figure = rpc.small_uploads(
                    fresh=fresh,
                    synced=synced,
                    seconds=size.upload_seconds,
                    max_uploads=size.uploads,
                    stage=stage,
                    show=show,
                )
                self._add([figure])

    def _passes(self) -> None:
        count, stage, show = self._size.backlog, self._stage, self._show
        self._add(submission.over_http(count, stage, show))
        self._add(passes.submissions(count, stage, show))
        self._add(passes.life(count, stage, show))
        self._add(passes.without_ledger(count // 2, stage, show))
        self._add(passes.overdue(count, stage, show))
        self._add(passes.dependencies(count, stage, show))

    def _claims(self) -> None:
        size, stage, show = self._size, self._stage, self._show
        self._add(claims.measure_all(size.claims_at, claims=size.claims, stage=stage, show=show))

    def _pipeline(self) -> None:
        self._add(
            pipeline.measure_all(
                self._size.pipeline,
                with_open_transaction=self._size.open_transaction,
                stage=self._stage,
                show=self._show,
                report_processes=self._run.processes.extend,
            )
        )

    def _latency(self) -> None:
        times, stage, show = self._size.latencies, self._stage, self._show
        self._add(latency.report_to_answer(times, stage=stage, show=show))

    def _statements(self) -> None:
        self._show.print_line("counting statements")
        self._run.statements += statements.of_rpcs()
        self._run.statements += statements.of_passes()


def _machine() -> dict[str, object]:
    with connection.cursor() as cursor:
        settings = {}
        for setting in ("server_version", "synchronous_commit", "fsync", "shared_buffers"):
            cursor.execute(f"SHOW {setting}")
            settings[setting] = cursor.fetchone()[0]
    return {
        "CPUs": os.cpu_count() or 1,
        "load at the start": round(os.getloadavg()[0], 1),
        "Python": platform.python_version(),
        "PostgreSQL": settings["server_version"],
        "synchronous_commit": settings["synchronous_commit"],
        "fsync": settings["fsync"],
        "shared_buffers": settings["shared_buffers"],
    }
