"""The whole pipeline: from submission until answers are kept and files deleted.

Everything runs as ``manage.py serve`` runs it: the web server and every daemon in its process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from django.conf import settings
from django.db import connection
from django.utils import timezone

from bench import backlog, crowd
from bench.crowd import Crowd, Play
from bench.figures import BenchError, Figure, Process
from bench.processes import Census
from bench.show import Show
from bench.stage import VAR, Stage
from bench.volunteer import volunteers
from project.embedded_postgres import EmbeddedPostgres
from scheduler.health import invariants
from scheduler.work.submission.facts import NewWorkunit

HOSTS, RESULTS_PER_RPC, QUORUM = 16, 20, 2
SECTION, IDLE_SECTION = 5, 6
#: So many workunits are submitted in one go: the first are computed before the last are there.
SUBMITTED_AT_ONCE = 1000
#: Seconds after which a pipeline that is not empty never will be.
MOST_SECONDS = 600.0
#: How often the memory of all processes is looked at, which costs milliseconds; seconds.
LOOK_EVERY = 2.0
#: The daemons' purger has nothing to do meanwhile: rows stay to be checked.
ENVIRONMENT = {"PURGE_AFTER": "86400"}

_FILES_ARE_LEFT = """
SELECT
    EXISTS (SELECT FROM workunit WHERE file_delete_state <> 2)
    OR EXISTS (SELECT FROM result WHERE file_delete_state <> 2)
"""
_STATES = """
SELECT
    (SELECT count(*) FROM workunit),
    (SELECT count(*) FROM workunit WHERE canonical_result_id IS NOT NULL AND error_mask = 0),
    (
        SELECT count(DISTINCT workunit_id) FROM ledger_entry
        WHERE axis = 6 AND target = 2
    ),
    (SELECT count(*) FROM ledger_entry WHERE axis = 6 AND target = 2),
    (SELECT count(*) FROM result),
    (SELECT count(*) FROM result WHERE server_state = 5 AND validate_state = 1),
    (SELECT count(*) FROM result WHERE granted_credit > 0)
"""


def both(
    workunits: int, *, held: bool, stage: Stage, show: Show, seen: Callable[[list[Process]], None]
) -> Iterator[Figure]:
    """The pipeline, and with `held` once more while a transaction is open; `seen` gets processes.

    The figures of processes are those of the first run.
    """
    what = "pipeline: submit to files deleted"
    figure, processes = once("pipeline", what, workunits, stage=stage, show=show)
    seen(processes)
    yield figure
    yield _of_results(figure)
    yield _memory(processes)
    if held:
        what = "pipeline: a transaction held open"
        with _held_transaction():
            slower, _ = once("pipeline_held", what, workunits, stage=stage, show=show)
        yield slower
        yield _held_share(figure, slower)


def once(
    key: str, what: str, workunits: int, *, stage: Stage, show: Show
) -> tuple[Figure, list[Process]]:
    """Run it once; raises BenchError if anything at all is not as it should be at the end."""
    stage.serve()
    # Daemons that look for work would stand in the way of emptying the tables.
    backlog.forget()
    new = backlog.workunits(workunits, own_inputs=True, quorum=QUORUM)
    load = Play(
        hosts=volunteers(HOSTS),
        results=RESULTS_PER_RPC,
        total=QUORUM * workunits,
        uploads=True,
        none="waits",
        most=MOST_SECONDS,
    )
    # What earlier parts had in the memory of our connection is not the pipeline's.
    connection.close()
    stage.start_daemons(**ENVIRONMENT)
    try:
        run = _run(what, new, load, stage=stage, show=show)
    finally:
        stage.stop_daemons()
    _check(workunits)
    results = QUORUM * workunits
    notes = (
        f"{workunits} workunits, quorum {QUORUM}, an input and two outputs each",
        f"{HOSTS} hosts x {RESULTS_PER_RPC} in an RPC; {results / run.seconds:,.0f} results/s",
        f"submitted after {run.submitted:.1f} s, reported after {run.reported:.1f} s",
        f"load generator {run.share:.1%} of the machine",
    )
    figure = Figure(
        key=key,
        section=SECTION,
        what=what,
        unit="workunits/s",
        value=workunits / run.seconds,
        count=workunits,
        seconds=run.seconds,
        cpu_ms=_cpu_ms(run.processes),
        notes=notes,
    )
    return figure, run.processes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """Seconds from the first submission on, and what was used meanwhile."""

    submitted: float
    reported: float
    seconds: float
    share: float
    processes: list[Process]


def _run(what: str, new: list[NewWorkunit], load: Play, *, stage: Stage, show: Show) -> _Run:
    census = _census(stage)
    with show.bar(what, load.total) as advance, Crowd(load, stage) as hosts:
        census.begin()
        used, began = time.process_time(), time.perf_counter()
        for first in range(0, len(new), SUBMITTED_AT_ONCE):
            backlog.submit_all(new[first : first + SUBMITTED_AT_ONCE])
        used, submitted = time.process_time() - used, time.perf_counter() - began
        _follow(hosts, census, advance)
        reported = time.perf_counter() - began
        done = hosts.played()
        _wait_for_the_end(began)
        seconds = time.perf_counter() - began
        processes = census.end(load.total)
    generator = float(done.sum["cpu"])
    return _Run(
        submitted=submitted,
        reported=reported,
        seconds=seconds,
        share=generator / seconds / (os.cpu_count() or 1),
        processes=[
            *processes,
            _outsider("submission", used, load.total),
            _outsider("load generator", generator, load.total),
        ],
    )


def _follow(hosts: Crowd, census: Census, advance: Callable[[float], None]) -> None:
    acknowledged, looked = 0, time.monotonic()
    for event in hosts:
        if event["event"] == "at":
            advance(event["acknowledged"] - acknowledged)
            acknowledged = event["acknowledged"]
            if time.monotonic() - looked > LOOK_EVERY:
                census.look()
                looked = time.monotonic()


def _wait_for_the_end(began: float) -> None:
    with connection.cursor() as cursor:
        while cursor.execute(_FILES_ARE_LEFT).fetchone()[0]:
            if time.perf_counter() - began > MOST_SECONDS:
                raise BenchError(f"Files are left after {MOST_SECONDS:.0f} s: {_stuck()}.")
            time.sleep(0.02)


def _stuck() -> str:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), assimilate_state, file_delete_state, need_validate,"
            " transition_at IS NOT NULL FROM workunit GROUP BY 2, 3, 4, 5"
        )
        return "; ".join(str(row) for row in cursor.fetchall())


def _census(stage: Stage) -> Census:
    roots = {name: process.pid for name, process in stage.children.started.items()}
    if postmaster := EmbeddedPostgres(VAR).postmaster():
        roots["postgres"] = postmaster.pid
    return Census(roots)


def _check(workunits: int) -> None:
    """Everything was done, once, with the right bytes, and no invariant is broken."""
    with connection.cursor() as cursor:
        found = cursor.execute(_STATES).fetchone()
    results = QUORUM * workunits
    expected = (workunits, workunits, workunits, workunits, results, results, results)
    if found != expected:
        raise BenchError(f"At the pipeline's end there are {found}, expected {expected}.")
    kept = Path(settings.VAR_DIR, "results", backlog.APP)
    with connection.cursor() as cursor:
        names = cursor.execute("SELECT name FROM workunit").fetchall()
    for (name,) in names:
        if (kept / name / "out").read_bytes() != crowd.output_of(name):
            raise BenchError(f"The answer of {name} has other bytes than its results.")
    if left := [path for path in Path(settings.VAR_DIR, "upload").rglob("*") if path.is_file()]:
        raise BenchError(f"{len(left)} uploads were not deleted, among them {left[0].name}.")
    for invariant in invariants.invariants():
        if broken := invariant.find(timezone.now()):
            raise BenchError(f"{invariant.sentence} Not so: {broken[0]}.")


@contextmanager
def _held_transaction() -> Iterator[None]:
    """A transaction that somebody forgot: no row that dies meanwhile can be taken away."""
    with psycopg.connect(**EmbeddedPostgres(VAR).conninfo()) as forgotten:  # type: ignore[arg-type]
        forgotten.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        forgotten.execute("SELECT pg_current_xact_id()")
        yield


def _outsider(name: str, seconds: float, results: int) -> Process:
    """A process that is the bench's own: its memory is nobody's concern."""
    return Process(
        name=name, cpu_ms=round(1000 * seconds / results, 4), resident_mb=0.0, own_mb=0.0
    )


def _cpu_ms(processes: list[Process]) -> dict[str, float]:
    """CPU per workunit, the database's processes taken together."""
    used: dict[str, float] = {}
    for process in processes:
        name = process.name.partition(":")[0]
        used[name] = round(used.get(name, 0.0) + QUORUM * process.cpu_ms, 3)
    return used


def _of_results(figure: Figure) -> Figure:
    return Figure(
        key="pipeline_results",
        section=SECTION,
        what="the same, by results",
        unit="results/s",
        value=QUORUM * figure.value,
    )


def _memory(processes: list[Process]) -> Figure:
    largest = max(processes, key=lambda process: process.own_mb)
    return Figure(
        key="memory",
        section=SECTION,
        what=f"largest process: {largest.name}",
        unit="MB",
        value=largest.own_mb,
        notes=("its share of memory (PSS) at its peak, in the pipeline",),
    )


def _held_share(without: Figure, with_: Figure) -> Figure:
    return Figure(
        key="held_share",
        section=SECTION,
        what="held to not held",
        unit="%",
        value=100 * with_.value / without.value,
        notes=("nothing that dies can be vacuumed while the transaction is open",),
    )
