"""The programme: what is measured in which order, and what is printed at the end."""

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

#: Tables are for reading in logs as well: never narrower than this where nobody watches.
COLUMNS = 120


def perform(stage: Stage, *, parts: Iterable[str], size: Size, also: Path | None) -> int:
    """Measure the parts asked for, print the tables, keep the figures; 1 if a part failed."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=COLUMNS)
    return Programme(stage, size, console).perform(set(parts), also)


class Programme:
    """One run."""

    def __init__(self, stage: Stage, size: Size, console: Console) -> None:
        self._stage, self._size, self._console = stage, size, console
        self._show = Show(console)

    def perform(self, parts: set[str], also: Path | None) -> int:
        """Measure, print, keep."""
        began = time.monotonic()
        crowd.build()
        EmbeddedPostgres(VAR).convert()
        call_command("migrate", verbosity=0, interactive=False)
        EmbeddedPostgres(VAR).grant_parameters("session_replication_role")
        signing.ensure_keys()
        at = timezone.now().isoformat(timespec="seconds")
        self._run = Run(at=at, size=self._size.name, machine=_machine())
        chosen = [part for part in PARTS if part in parts]
        # pgbench runs before, between and after: every other figure is set beside it.
        pgbench.fill()
        self._pgbench()
        for place, part in enumerate(chosen):
            if time.monotonic() - began > self._size.latest_start_seconds:
                self._fail(
                    f"{part}: left out, for {self._size.latest_start_seconds:.0f} s are over"
                )
                continue
            self._part(part)
            if place % 2 or part == chosen[-1]:
                self._pgbench()
        pgbench.drop()
        connections.close_all()
        figures = [pgbench.figure(*said) for said in self._run.pgbench.items()]
        self._run.figures[:0] = figures
        self._run.took_seconds = time.monotonic() - began
        before = compare.last(FOLDER, size=self._size.name)
        table.show(self._run, before, self._console)
        compare.keep(self._run, FOLDER, also)
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

    def _fail(self, said: str) -> None:
        self._run.failures.append(said)
        self._show.say(f"FAILED {said}")

    def _take(self, figures: Iterable[Figure]) -> None:
        for figure in figures:
            self._run.figures.append(figure)
            self._show.figure(figure)

    def _pgbench(self) -> None:
        for workload in pgbench.WORKLOADS:
            rate = pgbench.measure(workload, seconds=self._size.pgbench_seconds)
            self._run.pgbench.setdefault(workload, []).append(rate)

    def _rpc(self) -> None:
        size, stage, show = self._size, self._stage, self._show
        self._take(
            rpc.all_loads(seconds=size.rpc_seconds, most=size.rpc_unsent, stage=stage, show=show)
        )

    def _uploads(self) -> None:
        size, stage, show = self._size, self._stage, self._show
        for fresh, synced in ((False, False), (True, False), (False, True)):
            if synced <= size.synced_uploads:
                figure = rpc.small_uploads(
                    fresh=fresh,
                    synced=synced,
                    seconds=size.upload_seconds,
                    most=size.uploads,
                    stage=stage,
                    show=show,
                )
                self._take([figure])

    def _passes(self) -> None:
        count, stage, show = self._size.backlog, self._stage, self._show
        self._take(submission.over_http(count, stage, show))
        self._take(passes.submissions(count, stage, show))
        self._take(passes.life(count, stage, show))
        self._take(passes.without_ledger(count // 2, stage, show))
        self._take(passes.overdue(count, stage, show))

    def _claims(self) -> None:
        size, stage, show = self._size, self._stage, self._show
        self._take(claims.at_each(size.claims_at, claims=size.claims, stage=stage, show=show))

    def _pipeline(self) -> None:
        self._take(
            pipeline.both(
                self._size.pipeline,
                held=self._size.held,
                stage=self._stage,
                show=self._show,
                seen=self._run.processes.extend,
            )
        )

    def _latency(self) -> None:
        times, stage, show = self._size.latencies, self._stage, self._show
        self._take(latency.from_report_to_answer(times, stage=stage, show=show))

    def _statements(self) -> None:
        self._show.say("counting statements")
        self._run.statements += statements.of_rpcs()
        self._run.statements += statements.of_passes()


def _machine() -> dict[str, object]:
    with connection.cursor() as cursor:
        said = {}
        for setting in ("server_version", "synchronous_commit", "fsync", "shared_buffers"):
            cursor.execute(f"SHOW {setting}")
            said[setting] = cursor.fetchone()[0]
    return {
        "CPUs": os.cpu_count() or 1,
        "load at the start": round(os.getloadavg()[0], 1),
        "Python": platform.python_version(),
        "PostgreSQL": said["server_version"],
        "synchronous_commit": said["synchronous_commit"],
        "fsync": said["fsync"],
        "shared_buffers": said["shared_buffers"],
    }
