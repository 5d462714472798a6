"""What volunteers' clients do, over real HTTP: scheduler RPCs and uploads."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from bench import backlog, load
from bench.figures import BenchError, Figure
from bench.load import Connection, Load
from bench.show import Show
from bench.stage import Stage
from bench.volunteer import Volunteer, volunteers
from scheduler import signing, storage
from scheduler.wire import uploads

HOSTS = 16
UPLOADERS = 8
SCHEDULER = b"/cgi/scheduler"
UPLOAD = b"/upload/file_upload_handler"
UPLOAD_BYTES = 1000
#: Seconds at the start of each load that do not count.
WARM_UP = 1.0

_GIVEN = re.compile(rb"<result>\s*<name>([^<]+)</name>")
_ACKED = re.compile(rb"<result_ack>\s*<name>([^<]+)</name>")
_NO_WORK = b"Project has no tasks available"
#: Said to a client that should ask again at once: others held what it might have had.
_COME_AGAIN = b"too recent"


@dataclass(slots=True)
class Cruncher:
    """A host that reports what it was given and asks for as much again; checks every reply."""

    volunteer: Volunteer
    results_per_rpc: int
    held: list[bytes] = field(default_factory=list)
    given: list[bytes] = field(default_factory=list)

    def __call__(self, line: Connection) -> int | None:
        """One RPC; how many results were acknowledged, None when there is no more work."""
        body = self.volunteer.request(report=self.held, results_wanted=self.results_per_rpc)
        reply = line.post(SCHEDULER, body)
        acked = _ACKED.findall(reply)
        if sorted(acked) != sorted(self.held):
            raise BenchError(f"{len(self.held)} results reported, {len(acked)} acknowledged.")
        self.held = _GIVEN.findall(reply)
        self.given += self.held
        if not self.held and _COME_AGAIN not in reply:
            if _NO_WORK not in reply:
                raise BenchError(f"No work and no reason: {reply[:300]!r}")
            return None
        return len(acked)


@dataclass(slots=True)
class Idler:
    """A host that asks for work where there is none."""

    volunteer: Volunteer

    def __call__(self, line: Connection) -> int:
        """One RPC."""
        reply = line.post(SCHEDULER, self.volunteer.request(results_wanted=1))
        if _NO_WORK not in reply:
            raise BenchError(f"An empty project answered {reply[:300]!r}.")
        return 1


@dataclass(slots=True)
class Uploader:
    """A host that uploads one small file after the other."""

    bodies: list[bytes]

    def __call__(self, line: Connection) -> int | None:
        """One upload; None when all are done."""
        if not self.bodies:
            return None
        reply = line.post(UPLOAD, self.bodies.pop())
        if b"<status>0</status>" not in reply:
            raise BenchError(f"An upload was answered with {reply!r}.")
        return 1


def dispatch_and_report(
    results_per_rpc: int, *, seconds: float, most: int, stage: Stage, show: Show
) -> Figure:
    """Hosts that report and fetch so many results in each RPC."""
    backlog.forget()
    backlog.unsent(most)
    backlog.upload_all()
    crunchers = [Cruncher(volunteer, results_per_rpc) for volunteer in volunteers(HOSTS)]
    what = f"RPC: {results_per_rpc} reported and sent each"
    done = _run(what, crunchers, seconds=seconds, stage=stage, show=show)
    given = [name for cruncher in crunchers for name in cruncher.given]
    if len(given) != len(set(given)):
        raise BenchError(f"{len(given) - len(set(given))} results were given to two hosts.")
    rpcs = len(done.latencies)
    length = len(_sample(results_per_rpc)) / 1000
    notes = (f"{HOSTS} hosts, {rpcs} RPCs, requests of {length:.1f} kB", *done.notes())
    return _figure(f"rpc_{results_per_rpc}", what, "results", done, notes)


def without_work(*, seconds: float, stage: Stage, show: Show) -> Figure:
    """Hosts that ask an empty project for work."""
    backlog.forget()
    what = "RPC: asks, and there is no work"
    idlers = [Idler(volunteer) for volunteer in volunteers(HOSTS)]
    done = _run(what, idlers, seconds=seconds, stage=stage, show=show)
    return _figure("rpc_no_work", what, "RPCs", done, (f"{HOSTS} hosts", *done.notes()))


def small_uploads(*, seconds: float, most: int, stage: Stage, show: Show) -> Figure:
    """Hosts that upload small files over connections kept alive."""
    bodies = [_upload(number) for number in range(most)]
    uploaders = [Uploader(bodies[first::UPLOADERS]) for first in range(UPLOADERS)]
    what = "small uploads, kept alive"
    done = _run(what, uploaders, seconds=seconds, stage=stage, show=show)
    arrived = storage.finished_uploads(_upload_name(number) for number in range(most))
    if len(arrived) < done.count:
        raise BenchError(f"{done.count} uploads were confirmed, {len(arrived)} are there.")
    notes = (f"{UPLOADERS} connections, {UPLOAD_BYTES} bytes each", *done.notes())
    return _figure("uploads", what, "uploads", done, notes)


def all_loads(*, quick: bool, stage: Stage, show: Show) -> Iterator[Figure]:
    """Every load on the scheduler."""
    stage.serve()
    seconds = 2.0 if quick else 8.0
    yield without_work(seconds=seconds / 2, stage=stage, show=show)
    for results_per_rpc, most in ((1, 2000), (20, 6000)):
        yield dispatch_and_report(
            results_per_rpc,
            seconds=seconds,
            most=most if quick else 8 * most,
            stage=stage,
            show=show,
        )


def _run(
    what: str,
    players: list[Cruncher] | list[Idler] | list[Uploader],
    *,
    seconds: float,
    stage: Stage,
    show: Show,
) -> Load:
    each: list[Callable[[Connection], int | None]] = list(players)
    with show.bar(what, seconds) as advance:
        return load.run(
            each, stage=stage, seconds=seconds, warm_up=WARM_UP, tick=lambda: advance(0.1)
        )


def _figure(key: str, what: str, unit: str, done: Load, notes: tuple[str, ...]) -> Figure:
    return Figure(
        key=key,
        what=what,
        unit=unit,
        count=done.count,
        seconds=done.watch.seconds,
        cpu_ms=done.watch.cpu_ms(done.count),
        notes=notes,
    )


def _sample(results_per_rpc: int) -> bytes:
    names = [b"bench_0123abcd_1234_0"] * results_per_rpc
    return Volunteer("0" * 32, 1).request(report=names, results_wanted=1)


def _upload_name(number: int) -> str:
    return f"bench_upload_{number}_0_r{number}_0"


def _upload(number: int) -> bytes:
    data = f"{number:08} ".encode() * (UPLOAD_BYTES // 9 + 1)
    data = data[:UPLOAD_BYTES]
    name = _upload_name(number)
    request = uploads.UploadRequest(
        name=name,
        max_nbytes=backlog.MAX_NBYTES,
        grant=signing.upload_grant(name, backlog.MAX_NBYTES),
        nbytes=len(data),
        md5=hashlib.md5(data, usedforsecurity=False).hexdigest(),
        client_version=(7, 20, 5),
    )
    return uploads.encode_request(request, data)
