"""The load generator: builds its C program, describes a load, reads the score.

It shares the machine with what it measures, so it is a program of one thread that costs a few
hundredths of it; what it cost is said beside each figure.
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
#: A line that the program says.
Event = dict[str, Any]
#: As many different outputs; a workunit's name decides which one its results make.
VARIANTS = 64
OUTPUT_BYTES = 1000
#: How much of the machine the generator may take before a figure is not to be trusted.
FAIR_SHARE = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """What a crowd of hosts does.

    Each reports what it holds and asks for `results` more, until `seconds` after the warm-up are
    over or `total` results are reported. With `uploads` it uploads each result's output first;
    `apart` has reports in RPCs of their own. `none`: told that there is no work, the load ends,
    or the host asks on and on, or it waits `again` seconds. Without hosts, `players` connections
    upload `files` (names and grants).
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
class Played:
    """What came of it: the program's own sum, and the time and CPU of the stretch that counted."""

    sum: dict[str, Any]
    watch: Stopwatch

    def rate(self, what: str) -> float:
        """So many a second of `acknowledged`, `rpcs` or `uploads`."""
        return float(self.sum[what]) / self.seconds if self.seconds else 0.0

    @property
    def seconds(self) -> float:
        """How long the stretch was that counted."""
        return float(self.sum["seconds"])

    def latency_ms(self, kind: str, which: str) -> float:
        """The `p50`, `p99` or `longest` of exchanges `asked`, `reported` or `uploaded`."""
        return float(self.sum["latency_ms"][kind][which])

    @property
    def share(self) -> float:
        """How much of the machine the generator and its driver took."""
        used = self.sum["cpu"] + self.watch.cpu.get("bench", 0.0)
        return float(used) / (self.seconds * (os.cpu_count() or 1)) if self.seconds else 0.0

    def cpu_ms(self, count: int) -> dict[str, float]:
        """Milliseconds of CPU per unit, the generator and its driver taken together."""
        each = self.watch.cpu_ms(count)
        if count:
            driver = self.sum["cpu"] + self.watch.cpu.get("bench", 0.0)
            each["bench"] = round(1000 * driver / count, 3)
        return each

    def notes(self, kind: str) -> tuple[str, ...]:
        """Latencies, and what the generator cost."""
        said = [
            f"p50 {self.latency_ms(kind, 'p50'):.1f} ms, p99 {self.latency_ms(kind, 'p99'):.1f} ms",
            f"load generator {self.share:.1%} of the machine",
        ]
        if self.share > FAIR_SHARE:
            said.append("MORE THAN ITS FAIR SHARE")
        if self.sum["ran_out"]:
            said.append(f"all was done after {self.seconds:.1f} s")
        return tuple(said)


def build(folder: Path = FOLDER) -> Path:
    """Compile the program, unless that was done since its sources changed; return its path."""
    program = folder / PROGRAM.name
    sources = sorted(SOURCES.glob("*.c"))
    newest = max(path.stat().st_mtime for path in SOURCES.iterdir())
    if program.is_file() and program.stat().st_mtime > newest:
        return program
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if compiler is None:
        raise BenchError(
            "The load generator is a C program, and there is no C compiler."
            " Hint: apt install gcc libc6-dev."
        )
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [compiler, "-O2", "-std=gnu11", "-o", str(program), *map(str, sources)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchError(
            f"The load generator could not be compiled: {done.stderr.strip()[-400:]}"
            " Hint: apt install gcc libc6-dev."
        )
    return program


def output_of(workunit_name: str) -> bytes:
    """What every host of the crowd makes of a workunit: as the program chooses it (FNV-1a)."""
    number = 14695981039346656037
    for byte in workunit_name.encode():
        number = (number ^ byte) * 1099511628211 % (1 << 64)
    return _outputs()[number % VARIANTS]


def play(
    what: Play, stage: Stage, advance: Callable[[Event], object] = lambda _event: None
) -> Played:
    """Have a crowd play; `advance` is called with each event.

    Raises BenchError if a reply was wrong, a result was not acknowledged or was given twice.
    """
    with Crowd(what, stage) as crowd:
        for event in crowd:
            advance(event)
        return crowd.played()


class Crowd:
    """A load that is under way; iterate over it until its end, then ask what it did."""

    def __init__(self, what: Play, stage: Stage) -> None:
        folder = FOLDER / "play"
        folder.mkdir(parents=True, exist_ok=True)
        self._watch = Stopwatch(stage)
        self._violations: list[str] = []
        self._sum: dict[str, Any] | None = None
        self._hosts = what.hosts
        self._sequence = max((host.rpc_seqno for host in what.hosts), default=0)
        words = [str(build()), f"port={stage.port}", f"sequence={self._sequence}"]
        words += _words(what, folder)
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def __iter__(self) -> Iterator[Event]:
        """Every event, as soon as it is said; the stretch that counts is timed meanwhile."""
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

    def played(self) -> Played:
        """What it did; raises BenchError if anything was wrong."""
        if self._violations:
            more = f" (the first of {len(self._violations)})" if self._violations[1:] else ""
            raise BenchError(f"{self._violations[0]}{more}")
        if self._sum is None or self._process.wait():
            raise BenchError("The load generator ended before its time.")
        for host in self._hosts:
            # No host made more RPCs than all did, and a number may be left out.
            host.rpc_seqno = self._sequence + self._sum["rpcs_ever"]
        return Played(self._sum, self._watch)


def _words(what: Play, folder: Path) -> Iterator[str]:
    """The program's words; templates and names are written to files first."""
    numbers = ("results", "warm_up", "seconds", "total", "in_flight", "again", "most", "players")
    for name in numbers:
        yield f"{name}={getattr(what, name)}"
    for name in ("uploads", "apart", "fresh"):
        yield f"{name}={int(getattr(what, name))}"
    yield f"none={what.none}"
    yield f"seconds_each={RESULT_SECONDS}"
    yield f"max_nbytes={MAX_NBYTES}"
    request, report = templates()
    hosts = b"".join(b"%b %d\n" % (each.key.encode(), each.host_id) for each in what.hosts)
    files = "".join(f"{name}\0{grant}\0" for name, grant in what.files).encode()
    texts = {"request": request, "report": report, "upload": _upload(), "outputs": _digested()}
    for name, text in (texts | {"hosts": hosts, "files": files}).items():
        if text:
            (folder / name).write_bytes(text)
            yield f"{name}={folder / name}"


@cache
def _outputs() -> tuple[bytes, ...]:
    """Different contents of the same length, without an end of line: each is one in a file."""
    return tuple(
        (f"{number} " * OUTPUT_BYTES)[:OUTPUT_BYTES].encode() for number in range(VARIANTS)
    )


def _digested() -> bytes:
    return b"".join(
        b"%b %b\n" % (hashlib.md5(data, usedforsecurity=False).hexdigest().encode(), data)
        for data in _outputs()
    )


def _upload() -> bytes:
    """An upload's head with gaps: name, grant, most bytes, bytes, MD5."""
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
