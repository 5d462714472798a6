"""What a measurement says: figures, and what they were measured with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

#: The sections of the table, in their order.
SECTIONS = (
    "the database alone",
    "volunteers' computers",
    "work comes in",
    "the daemons, pass by pass",
    "claims",
    "the whole pipeline",
    "an idle server",
)


class BenchError(Exception):
    """A measurement that cannot be trusted, or cannot be made; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line: so much of a unit.

    `key` names the line from run to run; `section` is an index into `SECTIONS`. A unit that ends
    in "/s" is a rate, "ms" a time; anything else (MB, %) is not set beside the database's speed.
    `cpu_ms` are milliseconds of CPU per unit, by process.
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
        """Whether more is better, and a faster machine gives more."""
        return self.unit.endswith("/s")

    @property
    def is_time(self) -> bool:
        """Whether less is better, and a faster machine takes less."""
        return self.unit == "ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """How many statements something takes, by its size: constant, if all is well."""

    what: str
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """What one process of the server cost in the pipeline: CPU per result, peaks in MB.

    `resident_mb` counts all pages, `own_mb` its share of those that others hold as well (PSS),
    PostgreSQL's buffers left out.
    """

    name: str
    cpu_ms: float
    resident_mb: float
    own_mb: float


@dataclass(slots=True, kw_only=True)
class Run:
    """Everything that one run measured, and on what."""

    at: str
    size: str
    machine: Mapping[str, Any]
    figures: list[Figure] = field(default_factory=list)
    statements: list[Statements] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    #: pgbench's rates, by workload, as often as it was asked.
    pgbench: dict[str, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    took_seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """What is kept."""
        return {
            "at": self.at,
            "size": self.size,
            "machine": dict(self.machine),
            "pgbench": {
                key: [round(rate, 1) for rate in said] for key, said in self.pgbench.items()
            },
            "figures": [
                {**asdict(figure), "value": float(f"{figure.value:.6g}")} for figure in self.figures
            ],
            "statements": [asdict(line) for line in self.statements],
            "processes": [asdict(line) for line in self.processes],
            "failures": list(self.failures),
            "took_seconds": round(self.took_seconds, 1),
        }
