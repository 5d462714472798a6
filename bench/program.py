"""The programme: what is measured in which order, and what is printed at the end."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable
from pathlib import Path

import django
import psycopg
from django.core.management import call_command
from django.db import connection, connections
from django.utils import timezone
from rich.console import Console

from bench import PARTS, passes, pgbench, rpc, statements, table
from bench.figures import BenchError, Figure, Run, keep, rates_before
from bench.show import Show
from bench.stage import FOLDER, Stage
from scheduler import signing

LIFE, QUICK_LIFE = 5000, 1000


def perform(stage: Stage, *, parts: Iterable[str], quick: bool, also: Path | None) -> int:
    """Measure the parts asked for, print the tables, keep the figures; 1 if a part failed."""
    console = Console()
    show = Show(console)
    call_command("migrate", verbosity=0, interactive=False)
    signing.ensure_keys()
    run = Run(at=timezone.now().isoformat(timespec="seconds"), quick=quick, machine=_machine())
    failed = 0
    # pgbench runs always: every other figure is set beside it.
    for part in ("pgbench", *(part for part in PARTS if part in set(parts))):
        try:
            _PERFORM[part](run, stage, show)
        except (BenchError, django.db.Error, psycopg.Error, RuntimeError) as error:
            failed += 1
            show.say(f"{part} failed: {type(error).__name__}: {error}")
    connections.close_all()
    _print(run, console)
    keep(run, FOLDER, also)
    return 1 if failed else 0


def _pgbench(run: Run, _stage: Stage, show: Show) -> None:
    pgbench.fill()
    for key in pgbench.WORKLOADS:
        _take(run, show, [pgbench.measure(key, seconds=2 if run.quick else 5)])
    pgbench.drop()


def _passes(run: Run, stage: Stage, show: Show) -> None:
    count = QUICK_LIFE if run.quick else LIFE
    _take(run, show, passes.submissions(count, stage, show))
    _take(run, show, passes.life(count, stage, show))


def _timeouts(run: Run, stage: Stage, show: Show) -> None:
    count = QUICK_LIFE if run.quick else LIFE
    _take(run, show, passes.overdue(count, stage, show))


def _rpc(run: Run, stage: Stage, show: Show) -> None:
    _take(run, show, rpc.all_loads(quick=run.quick, stage=stage, show=show))


def _uploads(run: Run, stage: Stage, show: Show) -> None:
    stage.serve()
    seconds, most = (1.0, 20_000) if run.quick else (4.0, 60_000)
    _take(run, show, [rpc.small_uploads(seconds=seconds, most=most, stage=stage, show=show)])


def _statements(run: Run, _stage: Stage, show: Show) -> None:
    show.say("counting statements")
    run.statements += statements.of_rpcs()
    run.statements += statements.of_passes()


_PERFORM: dict[str, Callable[[Run, Stage, Show], None]] = {
    "pgbench": _pgbench,
    "passes": _passes,
    "timeouts": _timeouts,
    "rpc": _rpc,
    "uploads": _uploads,
    "statements": _statements,
}


def _take(run: Run, show: Show, figures: Iterable[Figure]) -> None:
    for figure in figures:
        run.figures.append(figure)
        show.figure(figure)


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


def _print(run: Run, console: Console) -> None:
    # Tables are for reading in logs as well: never narrower than they are.
    wide = console if console.is_terminal else Console(width=160)
    wide.print()
    wide.print(table.of_figures(run, rates_before(FOLDER, quick=run.quick)))
    for remark in table.remarks(run):
        wide.print(f"  {remark}", highlight=False, markup=False, soft_wrap=True)
    if run.statements:
        wide.print()
        wide.print(table.of_statements(run.statements))
