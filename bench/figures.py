"""Defines the results of measurements, and the conditions of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

#: The sections of the table, in their order.
SECTIONS = (
    "the database alone",
    "scheduler RPCs and uploads",
    "submission",
    "passes of the daemons",
    "claims",
    "the whole pipeline",
    "an idle server",
)


class BenchError(Exception):
    """A measurement is impossible or not reliable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured value with its unit.

    `key` identifies the figure in all runs, and `section` is an index into `SECTIONS`. A unit that
    ends in "/s" is that of a rate, and "ms" is that of a time. Figures with other units (MB, %) are
    not compared with the database's speed. `cpu_ms` maps the names of processes to milliseconds of
    CPU per unit.
    """

    key: str
    section: int
    what: str
    unit: str
    value: float
    count: int = 0
    seconds: float = 0.0
    cpu_ms: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def is_rate(self) -> bool:
        """Return whether the figure is a rate, which is higher on a faster machine."""
        return self.unit.endswith("/s")

    @property
    def is_time(self) -> bool:
        """Return whether the figure is a time, which is lower on a faster machine."""
        return self.unit == "ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """The numbers of SQL statements of an operation.

    `counts` maps the size of the operation to the number of statements, which should be constant.
    """

    what: str
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The resources that a process of the server used in the pipeline.

    `cpu_ms` is the CPU time per result.  `resident_mb` is the peak of the resident memory, which
    counts shared pages completely.  `own_mb` is the peak of the proportional share (PSS), without
    PostgreSQL's buffers.
    """

    name: str
    cpu_ms: float
    resident_mb: float
    own_mb: float


@dataclass(slots=True, kw_only=True)
class Run:
    """All results of one run of the benchmark."""

    at: str
    size: str
    machine: Mapping[str, Any]
    figures: list[Figure] = field(default_factory=list)
    statements: list[Statements] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    #: The rates of all executions of pgbench, by workload.
    pgbench: dict[str, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    took_seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the run as a dict for JSON."""
        return {
            "at": self.at,
            "size": self.size,
            "machine": dict(self.machine),
            "pgbench": {
                key: [round(rate, 1) for rate in rates] for key, rates in self.pgbench.items()
            },
            "figures": [
                {**asdict(figure), "value": float(f"{figure.value:.6g}")} for figure in self.figures
            ],
            "statements": [asdict(line) for line in self.statements],
            "processes": [asdict(line) for line in self.processes],
            "failures": list(self.failures),
            "took_seconds": round(self.took_seconds, 1),
        }
