"""Measures scheduler RPCs and uploads over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

from bench import backlog, crowd
from bench.crowd import Load, LoadResult
from bench.figures import BenchError, Figure
from bench.show import Show
from bench.stage import Stage
from bench.volunteer import volunteers
from scheduler import signing, storage

HOSTS = 16
UPLOADERS = 8
#: Seconds at the start of each load that are not measured.
WARM_UP = 1.0
SECTION = 1
_NO_WORK = "RPC: no work"


def measure_all(
    *,
    seconds: float,
    unsent_by_results: dict[int, int],
    crowds: tuple[int, ...],
    stage: Stage,
    show: Show,
) -> Iterator[Figure]:
    """Measure RPCs without work, then RPCs with each number of results in `unsent_by_results`.

    `unsent_by_results` maps the number of results per RPC to the number of unsent results at the
    start.  The RPCs with most results are repeated with each number of hosts in `crowds`.
    """
    stage.serve()
    yield without_work(seconds=seconds / 2, stage=stage, show=show)
    for results, unsent in unsent_by_results.items():
        yield dispatch_and_report(results, seconds=seconds, unsent=unsent, stage=stage, show=show)
    results, unsent = max(unsent_by_results.items())
    for hosts in crowds:
        yield dispatch_and_report(
            results, hosts=hosts, seconds=seconds / 2, unsent=unsent, stage=stage, show=show
        )


def dispatch_and_report(
    results: int, *, seconds: float, unsent: int, stage: Stage, show: Show, hosts: int = HOSTS
) -> Figure:
    """Measure the rate of RPCs that report and request `results` results each.

    All hosts send RPCs simultaneously.  Unsent results are in the order of their workunits, so the
    two results of a workunit are sent to two hosts that request work at the same time, and are
    reported at the same time, often to different server processes.  A host that is turned away
    ends the benchmark with an error.
    """
    backlog.forget()
    backlog.unsent(unsent)
    backlog.upload_all()
    key, what = f"rpc_{results}", f"RPC: {results} reported and sent each"
    if hosts != HOSTS:
        key, what = f"{key}_hosts_{hosts}", f"RPC: {results} each, {hosts} hosts"
    load = Load(hosts=volunteers(hosts), results=results, seconds=seconds, warm_up=WARM_UP)
    done = _run(what, load, stage=stage, show=show)
    size = done.sum["request_bytes"] / 1000, done.sum["reply_bytes"] / 1000
    rpcs = max(1, done.sum["rpcs"])
    notes = (
        (
            f"{hosts} hosts, {done.sum['given'] / rpcs:.1f} results sent per RPC,"
            f" requests of {size[0]:.1f} kB, replies of {size[1]:.1f} kB"
        ),
        *done.notes("asked"),
    )
    return _figure(key, what, "results/s", "acknowledged", done, notes)


def without_work(*, seconds: float, stage: Stage, show: Show) -> Figure:
    """Measure the rate of RPCs that request work from a project without work."""
    backlog.forget()
    load = Load(hosts=volunteers(HOSTS), results=1, seconds=seconds, warm_up=WARM_UP, none="counts")
    done = _run(_NO_WORK, load, stage=stage, show=show)
    if done.sum["given_ever"]:
        raise BenchError(f"A project without work sent {done.sum['given_ever']} results.")
    size = f"requests of {done.sum['request_bytes'] / 1000:.1f} kB"
    notes = (f"{HOSTS} hosts, {size}", *done.notes("asked"))
    return _figure("rpc_no_work", _NO_WORK, "RPCs/s", "rpcs", done, notes)


def small_uploads(
    *,
    fresh: bool,
    seconds: float,
    max_uploads: int,
    stage: Stage,
    show: Show,
    synced: bool = False,
) -> Figure:
    """Measure uploads of small files; the load ends after `max_uploads` uploads or `seconds`.

    With `fresh`, each file is uploaded over a new connection.  With `synced`, the server syncs each
    file to the disk.
    """
    stage.serve(**({"UPLOAD_FSYNC": "true"} if synced else {}))
    key = ("uploads", "uploads_fresh")[fresh] + ("_synced" if synced else "")
    what = ("small uploads: kept alive", "small uploads: new connections")[fresh]
    what += ", fsync" if synced else ""
    files = [_granted(f"{key}_{number}_0_r{number}_0") for number in range(max_uploads)]
    load = Load(
        players=UPLOADERS, files=files, fresh=fresh, seconds=seconds, warm_up=WARM_UP, uploads=True
    )
    done = _run(what, load, stage=stage, show=show)
    arrived = storage.finished_uploads(name for name, _ in files[: done.sum["uploads_ever"]])
    if len(arrived) != done.sum["uploads_ever"]:
        raise BenchError(f"{done.sum['uploads_ever']} uploads confirmed, {len(arrived)} stored.")
    notes = (
        f"{UPLOADERS} connections, {crowd.OUTPUT_BYTES} bytes each",
        *done.notes("uploaded"),
    )
    storage.delete_uploads(arrived)
    return _figure(key, what, "uploads/s", "uploads", done, notes)


def _granted(name: str) -> tuple[str, str]:
    return name, signing.upload_grant(name, backlog.MAX_NBYTES)


def _run(what: str, load: Load, *, stage: Stage, show: Show) -> LoadResult:
    with show.bar(what, load.seconds) as advance:
        past = 0.0

        def tick(event: crowd.Event) -> None:
            nonlocal past
            if event["event"] == "at":
                advance(event["seconds"] - past)
                past = event["seconds"]

        return crowd.run_load(load, stage, tick)


def _figure(
    key: str, what: str, unit: str, counted: str, done: LoadResult, notes: tuple[str, ...]
) -> Figure:
    return Figure(
        key=key,
        section=SECTION,
        what=what,
        unit=unit,
        value=done.rate(counted),
        count=done.sum[counted],
        seconds=done.seconds,
        cpu_ms=done.cpu_ms(done.sum[counted]),
        notes=notes,
    )
