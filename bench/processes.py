"""Measures the CPU time and the peak memory of the server's processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.figures import Process

_MB = 1_000_000


def family_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and all its descendants, even of those that ended."""
    return sum(_seconds(member) for member in family(pid))


def family(pid: int) -> list[psutil.Process]:
    """Return a process and all its running descendants."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


@dataclass(slots=True)
class Census:
    """Measures the CPU time and the peak memory of the processes in `roots` and below.

    `roots` maps names to process ids.  Processes with the same name have one entry.  The memory of
    a process that lives only between two samples is not measured.
    """

    roots: dict[str, int]
    _began: dict[str, float] = field(default_factory=dict)
    _resident: dict[str, float] = field(default_factory=dict)
    _own: dict[str, float] = field(default_factory=dict)

    def sample(self) -> None:
        """Update the peak memory of the processes."""
        for name, process in self._members():
            resident, own = _memory_mb(process.pid, of_postgres=name.startswith("postgres"))
            self._resident[name] = max(self._resident.get(name, 0.0), resident)
            self._own[name] = max(self._own.get(name, 0.0), own)

    def begin(self) -> None:
        """Start measuring CPU time."""
        self._began = self._used()

    def end(self, results: int) -> list[Process]:
        """Return the usage of each process since `begin`, in descending order of CPU time.

        The CPU time is divided by `results`.
        """
        self.sample()
        used = {name: now - self._began.get(name, 0.0) for name, now in self._used().items()}
        return [
            Process(
                name=name,
                cpu_ms=round(1000 * max(0.0, seconds) / results, 4),
                resident_mb=round(self._resident.get(name, 0.0), 1),
                own_mb=round(self._own.get(name, 0.0), 1),
            )
            for name, seconds in sorted(used.items(), key=lambda pair: -pair[1])
        ]

    def _used(self) -> dict[str, float]:
        used: dict[str, float] = {}
        for name, process in self._members():
            used[name] = used.get(name, 0.0) + _seconds(process)
        return used

    def _members(self) -> Iterator[tuple[str, psutil.Process]]:
        for root, pid in self.roots.items():
            for process in family(pid):
                with suppress(psutil.NoSuchProcess):
                    yield _name(root, pid, process), process


def _name(root: str, pid: int, process: psutil.Process) -> str:
    """Return the name of a process, such as a daemon or a kind of database process.

    Other processes have the name of their root.
    """
    if root == "daemons":
        return root if process.pid == pid else process.name()
    words = process.cmdline()
    if root == "postgres":
        title = " ".join(words)
        for part in ("checkpointer", "background writer", "walwriter", "autovacuum", "io worker"):
            if part in title:
                return f"postgres: {part}"
        return "postgres: backends" if "postgres: " in title else "postgres: main"
    return root


def _seconds(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        used = process.cpu_times()
        return float(used.user + used.system + used.children_user + used.children_system)
    return 0.0


def _memory_mb(pid: int, *, of_postgres: bool) -> tuple[float, float]:
    """Return a process's peak resident memory, and its current proportional share (PSS), in MB.

    PostgreSQL's buffers are not included in the share: their size is a setting, and they would be
    counted for the backends that used them last.
    """
    resident = own = 0.0
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(":")
            if name == "VmHWM":
                resident = int(value.split()[0]) * 1024 / _MB
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(":")
            if name == "Pss":
                own += int(value.split()[0]) * 1024 / _MB
            if name == "Pss_Shmem" and of_postgres:
                own -= int(value.split()[0]) * 1024 / _MB
    return resident, own
