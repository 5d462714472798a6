"""Measures the whole pipeline, from submission to assimilation and file deletion.

The web server and the daemons run in the same processes as under ``manage.py serve``.
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
from bench.crowd import Crowd, Load
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
#: Workunits per submission; hosts process the first batches while later ones are submitted.
BATCH_SIZE = 1000
#: The measurement fails if the pipeline is not empty after this time.
TIMEOUT_SECONDS = 600.0
#: Seconds between samples of the memory of all processes; a sample takes milliseconds.
SAMPLE_SECONDS = 2.0
#: No workunit is purged during the run, because the rows are checked at its end.
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


def measure_all(
    workunits: int,
    *,
    with_open_transaction: bool,
    stage: Stage,
    show: Show,
    report_processes: Callable[[list[Process]], None],
) -> Iterator[Figure]:
    """Measure the pipeline for `workunits` workunits.

    If `with_open_transaction` is True, the pipeline is measured again while a transaction is open.
    Calls `report_processes` with the processes of the first run.
    """
    what = "pipeline: submit to files deleted"
    figure, processes = measure("pipeline", what, workunits, stage=stage, show=show)
    report_processes(processes)
    yield figure
    yield _of_results(figure)
    yield _memory(processes)
    if with_open_transaction:
        what = "pipeline: with an open transaction"
        with _open_transaction():
            slower, _ = measure("pipeline_held", what, workunits, stage=stage, show=show)
        yield slower
        yield _open_transaction_share(figure, slower)


def measure(
    key: str, what: str, workunits: int, *, stage: Stage, show: Show
) -> tuple[Figure, list[Process]]:
    """Run the pipeline once; return its rate, and the usage of each process.

    Raises BenchError if a check at the end fails.
    """
    stage.serve()
    # The daemons do not run yet: their locks would block TRUNCATE.
    backlog.forget()
    new = backlog.workunits(workunits, own_inputs=True, quorum=QUORUM)
    load = Load(
        hosts=volunteers(HOSTS),
        results=RESULTS_PER_RPC,
        total=QUORUM * workunits,
        uploads=True,
        none="waits",
        most=TIMEOUT_SECONDS,
    )
    # Close the connection, so that the memory of earlier parts does not count for the pipeline.
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
    """The times and the usage of a run of the pipeline.

    `submitted`, `reported` and `seconds` are the seconds from the start to the last submission, to
    the last report and to the end.  `share` is the share of the machine that the load generator
    used.
    """

    submitted: float
    reported: float
    seconds: float
    share: float
    processes: list[Process]


def _run(what: str, new: list[NewWorkunit], load: Load, *, stage: Stage, show: Show) -> _Run:
    census = _census(stage)
    with show.bar(what, load.total) as advance, Crowd(load, stage) as hosts:
        census.begin()
        used, began = time.process_time(), time.perf_counter()
        for first in range(0, len(new), BATCH_SIZE):
            backlog.submit_all(new[first : first + BATCH_SIZE])
        used, submitted = time.process_time() - used, time.perf_counter() - began
        _sample_until_end(hosts, census, advance)
        reported = time.perf_counter() - began
        done = hosts.result()
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
            _bench_process("submission", used, load.total),
            _bench_process("load generator", generator, load.total),
        ],
    )


def _sample_until_end(hosts: Crowd, census: Census, advance: Callable[[float], None]) -> None:
    acknowledged, sampled_at = 0, time.monotonic()
    for event in hosts:
        if event["event"] == "at":
            advance(event["acknowledged"] - acknowledged)
            acknowledged = event["acknowledged"]
            if time.monotonic() - sampled_at > SAMPLE_SECONDS:
                census.sample()
                sampled_at = time.monotonic()


def _wait_for_the_end(began: float) -> None:
    with connection.cursor() as cursor:
        while cursor.execute(_FILES_ARE_LEFT).fetchone()[0]:
            if time.perf_counter() - began > TIMEOUT_SECONDS:
                raise BenchError(f"Files are left after {TIMEOUT_SECONDS:.0f} s: {_stuck()}.")
            time.sleep(0.02)


def _stuck() -> str:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), assimilate_state, file_delete_state, need_validate,"
            " EXISTS (SELECT FROM workunit_wakeup AS q WHERE q.workunit_id = workunit.id)"
            " FROM workunit GROUP BY 2, 3, 4, 5"
        )
        return "; ".join(str(row) for row in cursor.fetchall())


def _census(stage: Stage) -> Census:
    roots = {name: process.pid for name, process in stage.children.started.items()}
    if postmaster := EmbeddedPostgres(VAR).postmaster():
        roots["postgres"] = postmaster.pid
    return Census(roots)


def _check(workunits: int) -> None:
    """Raise BenchError unless every workunit was completed once, with the right output.

    Checks the invariants of the database as well, and that all uploads were deleted.
    """
    with connection.cursor() as cursor:
        counts = cursor.execute(_STATES).fetchone()
    results = QUORUM * workunits
    expected = (workunits, workunits, workunits, workunits, results, results, results)
    if counts != expected:
        raise BenchError(f"The counts at the end are {counts}, expected {expected}.")
    results_folder = Path(settings.VAR_DIR, "results", backlog.APP)
    with connection.cursor() as cursor:
        names = cursor.execute("SELECT name FROM workunit").fetchall()
    for (name,) in names:
        if (results_folder / name / "out").read_bytes() != crowd.output_of(name):
            raise BenchError(f"The assimilated output of {name} differs from its results.")
    if remaining := [
        path for path in Path(settings.VAR_DIR, "upload").rglob("*") if path.is_file()
    ]:
        raise BenchError(
            f"{len(remaining)} uploads were not deleted, among them {remaining[0].name}."
        )
    for invariant in invariants.invariants():
        if violations := invariant.find(timezone.now()):
            raise BenchError(f"Invariant violated: {invariant.sentence} {violations[0]}.")


@contextmanager
def _open_transaction() -> Iterator[None]:
    """Keep a transaction open within the block, so that dead rows cannot be vacuumed."""
    with psycopg.connect(**EmbeddedPostgres(VAR).conninfo()) as session:  # type: ignore[arg-type]
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        session.execute("SELECT pg_current_xact_id()")
        yield


def _bench_process(name: str, seconds: float, results: int) -> Process:
    """Return the CPU usage of a process of the bench itself; its memory is 0."""
    return Process(
        name=name, cpu_ms=round(1000 * seconds / results, 4), resident_mb=0.0, own_mb=0.0
    )


def _cpu_ms(processes: list[Process]) -> dict[str, float]:
    """Return the CPU time per workunit by process; all processes of the database are one entry."""
    used: dict[str, float] = {}
    for process in processes:
        name = process.name.partition(":")[0]
        used[name] = round(used.get(name, 0.0) + QUORUM * process.cpu_ms, 3)
    return used


def _of_results(figure: Figure) -> Figure:
    return Figure(
        key="pipeline_results",
        section=SECTION,
        what="pipeline: results",
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
        notes=("peak of its share of memory (PSS), in the pipeline",),
    )


def _open_transaction_share(usual: Figure, slower: Figure) -> Figure:
    return Figure(
        key="held_share",
        section=SECTION,
        what="rate with an open transaction",
        unit="%",
        value=100 * slower.value / usual.value,
        notes=("dead rows cannot be vacuumed while the transaction is open",),
    )
