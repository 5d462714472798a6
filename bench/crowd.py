"""Builds and runs the load generator, which simulates many hosts.

The load generator is a C program.  It shares the machine with the server that it measures, so it
has one thread and uses a few percent of the machine.  Its share is noted with each figure.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

from bench.backlog import MAX_NBYTES, RESULT_SECONDS
from bench.figures import BenchError
from bench.stage import FOLDER, Stage, Stopwatch
from bench.volunteer import Volunteer, templates
from scheduler.boinc.wire import uploads

SOURCES = Path(__file__).resolve().parent / "load"
PROGRAM = FOLDER / "load"
#: An event that the C program prints as a line of JSON.
Event = dict[str, Any]
#: The number of different outputs; the name of a workunit selects the output of its results.
VARIANTS = 64
OUTPUT_BYTES = 1000
#: The maximum share of the machine that the generator may use.  With more, a figure is unreliable.
MAX_MACHINE_SHARE = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A load of many hosts.

    Each host reports its results and requests `results` more results.  The load ends `seconds`
    after the warm-up, or when `total` results are reported.  `in_flight` is the maximum number of
    simultaneous exchanges; 0 means no limit.

    With `uploads`, a host first uploads the output of each result.  With `apart`, it reports in
    separate RPCs.  With `fresh`, it opens a new connection for each exchange.  `none` is the
    reaction to a reply without work.  ``ends`` ends the load, with ``counts`` the host continues
    immediately, and with ``waits`` it waits for `again` seconds.  `most` is the timeout of the load
    in seconds.  Without hosts, `players` connections upload `files`, which are pairs of a name and
    an upload grant.
    """

    hosts: Sequence[Volunteer] = ()
    results: int = 0
    warm_up: float = 0.0
    seconds: float = 0.0
    total: int = 0
    in_flight: int = 0
    uploads: bool = False
    apart: bool = False
    fresh: bool = False
    none: Literal["ends", "counts", "waits"] = "ends"
    again: float = 0.02
    most: float = 600.0
    players: int = 0
    files: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of a load.

    `sum` contains the counters of the load generator, and `watch` the measured CPU time.
    """

    sum: dict[str, Any]
    watch: Stopwatch

    def rate(self, counter: str) -> float:
        """Return the rate per second of a counter: `acknowledged`, `rpcs` or `uploads`."""
        return float(self.sum[counter]) / self.seconds if self.seconds else 0.0

    @property
    def seconds(self) -> float:
        """Return the duration of the measurement."""
        return float(self.sum["seconds"])

    def latency_ms(self, kind: str, which: str) -> float:
        """Return a latency in milliseconds.

        `kind` is asked, reported or uploaded; `which` is p50, p99 or longest.
        """
        return float(self.sum["latency_ms"][kind][which])

    @property
    def share(self) -> float:
        """Return the share of the machine that the generator and this process used, from 0 to 1."""
        used = self.sum["cpu"] + self.watch.cpu.get("bench", 0.0)
        return float(used) / (self.seconds * (os.cpu_count() or 1)) if self.seconds else 0.0

    def cpu_ms(self, count: int) -> dict[str, float]:
        """Return the milliseconds of CPU per unit, by process; `count` is the number of units.

        The entry `bench` includes the load generator.
        """
        by_part = self.watch.cpu_ms(count)
        if count:
            driver = self.sum["cpu"] + self.watch.cpu.get("bench", 0.0)
            by_part["bench"] = round(1000 * driver / count, 3)
        return by_part

    def notes(self, kind: str) -> tuple[str, ...]:
        """Return notes on the latencies of `kind` and on the generator, with warnings."""
        notes = [
            f"p50 {self.latency_ms(kind, 'p50'):.1f} ms, p99 {self.latency_ms(kind, 'p99'):.1f} ms",
            f"load generator {self.share:.1%} of the machine",
        ]
        if self.share > MAX_MACHINE_SHARE:
            notes.append(f"MORE THAN {MAX_MACHINE_SHARE:.0%}: UNRELIABLE")
        if self.sum["ran_out"]:
            notes.append(f"no work was left after {self.seconds:.1f} s")
        return tuple(notes)


def build(folder: Path = FOLDER) -> Path:
    """Compile the program if its sources have changed; return its path.

    Raises BenchError if there is no compiler, or the compiler fails.
    """
    program = folder / PROGRAM.name
    sources = sorted(SOURCES.glob("*.c"))
    newest = max(path.stat().st_mtime for path in SOURCES.iterdir())
    if program.is_file() and program.stat().st_mtime > newest:
        return program
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if compiler is None:
        raise BenchError(
            "The load generator is a C program, but no C compiler was found."
            " Hint: apt install gcc libc6-dev."
        )
    folder.mkdir(parents=True, exist_ok=True)
    completed = subprocess.run(
        [compiler, "-O2", "-std=gnu11", "-o", str(program), *map(str, sources)],
        capture_output=True,
        text=True,
        check=False,
    )
    if completed.returncode:
        raise BenchError(
            f"The load generator could not be compiled: {completed.stderr.strip()[-400:]}"
            " Hint: apt install gcc libc6-dev."
        )
    return program


def output_of(workunit_name: str) -> bytes:
    """Return the output of a workunit's results.

    The output is selected by the FNV-1a hash of the workunit's name, as in the C program.
    """
    hash_value = 14695981039346656037
    for byte in workunit_name.encode():
        hash_value = (hash_value ^ byte) * 1099511628211 % (1 << 64)
    return _outputs()[hash_value % VARIANTS]


def run_load(
    load: Load, stage: Stage, advance: Callable[[Event], object] = lambda _event: None
) -> LoadResult:
    """Run a load to its end; call `advance` with each event.

    Raises BenchError if the program failed, or if a reply was wrong.  For instance, a result was
    sent twice or was not acknowledged.
    """
    with Crowd(load, stage) as crowd:
        for event in crowd:
            advance(event)
        return crowd.result()


class Crowd:
    """A running load.  Callers iterate over its events until the end, then call `result`."""

    def __init__(self, load: Load, stage: Stage) -> None:
        folder = FOLDER / "play"
        folder.mkdir(parents=True, exist_ok=True)
        self._watch = Stopwatch(stage)
        self._violations: list[str] = []
        self._sum: dict[str, Any] | None = None
        self._hosts = load.hosts
        self._sequence = max((host.rpc_seqno for host in load.hosts), default=0)
        command = [str(build()), f"port={stage.port}", f"sequence={self._sequence}"]
        command += _options(load, folder)
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def __iter__(self) -> Iterator[Event]:
        """Yield the events as the program prints them, and measure the time."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event: Event = json.loads(line)
            match event["event"]:
                case "began":
                    self._watch.begin()
                case "ended":
                    self._watch.end()
                case "violation":
                    self._violations.append(event["what"])
                case "sum":
                    self._sum = event
            yield event

    def result(self) -> LoadResult:
        """Return the result; raise BenchError if a reply was wrong or the program failed."""
        if self._violations:
            more = f" (the first of {len(self._violations)})" if self._violations[1:] else ""
            raise BenchError(f"{self._violations[0]}{more}")
        if self._sum is None or self._process.wait():
            raise BenchError("The load generator ended unexpectedly.")
        for host in self._hosts:
            # The total is an upper bound for each host, and sequence numbers may have gaps.
            host.rpc_seqno = self._sequence + self._sum["rpcs_ever"]
        return LoadResult(self._sum, self._watch)


def _options(load: Load, folder: Path) -> Iterator[str]:
    """Yield the program's options; write templates, hosts and outputs to files in `folder`."""
    numbers = ("results", "warm_up", "seconds", "total", "in_flight", "again", "most", "players")
    for name in numbers:
        yield f"{name}={getattr(load, name)}"
    for name in ("uploads", "apart", "fresh"):
        yield f"{name}={int(getattr(load, name))}"
    yield f"none={load.none}"
    yield f"seconds_each={RESULT_SECONDS}"
    yield f"max_nbytes={MAX_NBYTES}"
    request, report = templates()
    hosts = b"".join(b"%b %d\n" % (each.key.encode(), each.host_id) for each in load.hosts)
    files = "".join(f"{name}\0{grant}\0" for name, grant in load.files).encode()
    texts = {"request": request, "report": report, "upload": _upload(), "outputs": _digested()}
    for name, text in (texts | {"hosts": hosts, "files": files}).items():
        if text:
            (folder / name).write_bytes(text)
            yield f"{name}={folder / name}"


@cache
def _outputs() -> tuple[bytes, ...]:
    """Return the different outputs, which contain no newline.

    In the file for the C program, each output is a line.
    """
    return tuple(
        (f"{number} " * OUTPUT_BYTES)[:OUTPUT_BYTES].encode() for number in range(VARIANTS)
    )


def _digested() -> bytes:
    return b"".join(
        b"%b %b\n" % (hashlib.md5(data, usedforsecurity=False).hexdigest().encode(), data)
        for data in _outputs()
    )


def _upload() -> bytes:
    """Return a template of an upload request without its data.

    The C program fills the gaps for name, grant, maximum size, size and MD5.
    """
    head = uploads.encode_request(
        uploads.UploadRequest(
            name="\1",
            grant="\2",
            max_nbytes=471103,
            nbytes=471104,
            md5="\5",
            client_version=(7, 20, 5),
        )
    )
    return head.replace(b"471103", b"\3").replace(b"471104", b"\4")
