"""What a measurement says, how it is kept, and what the run before said."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


class BenchError(Exception):
    """A measurement that cannot be trusted, or cannot be made; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """How many of a unit were done in how many seconds.

    `cpu_ms` are milliseconds of CPU per unit, by process; `key` names the line from run to run.
    """

    key: str
    what: str
    unit: str
    count: int
    seconds: float
    cpu_ms: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """Units per second."""
        return self.count / self.seconds if self.seconds > 0 else 0.0

    def as_json(self) -> dict[str, Any]:
        """What is kept."""
        return {**asdict(self), "rate": round(self.rate, 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """How many statements something takes, by its size: constant, if all is well."""

    what: str
    counts: Mapping[str, int]


@dataclass(slots=True, kw_only=True)
class Run:
    """Everything that one run measured, and on what."""

    at: str
    quick: bool
    machine: Mapping[str, Any]
    figures: list[Figure] = field(default_factory=list)
    statements: list[Statements] = field(default_factory=list)

    def rate(self, key: str) -> float | None:
        """The rate of a line, None if it was not measured."""
        return next((figure.rate for figure in self.figures if figure.key == key), None)

    def as_json(self) -> dict[str, Any]:
        """What is kept."""
        return {
            "at": self.at,
            "quick": self.quick,
            "machine": dict(self.machine),
            "figures": [figure.as_json() for figure in self.figures],
            "statements": [asdict(line) for line in self.statements],
        }


def keep(run: Run, folder: Path, also: Path | None = None) -> None:
    """Write ``last.json``, add a line to ``history.jsonl``."""
    entry = run.as_json()
    text = json.dumps(entry, indent=2) + "\n"
    for path in filter(None, (folder / "last.json", also)):
        path.write_text(text, encoding="utf-8")
    with (folder / "history.jsonl").open("a", encoding="utf-8") as history:
        history.write(json.dumps(entry) + "\n")


def rates_before(folder: Path, *, quick: bool) -> dict[str, float]:
    """The newest kept rate of each line, from runs of the same length."""
    try:
        lines: Sequence[str] = (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    rates: dict[str, float] = {}
    for line in lines:
        entry = json.loads(line)
        if entry["quick"] == quick:
            rates |= {figure["key"]: figure["rate"] for figure in entry["figures"]}
    return rates
