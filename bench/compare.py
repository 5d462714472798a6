"""Compares figures with pgbench, BOINC's server, the aims and the previous run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import median
from typing import Any

from bench import peer
from bench.figures import Figure, Run

SELECT, UPDATE = "pgbench_select", "pgbench_update"


def pgbench_rate(pgbench: Mapping[str, list[float]], workload: str) -> float | None:
    """Return the median rate of a workload in transactions per second.

    `pgbench` maps workloads to measured rates.  Returns None if the workload has no rates.
    """
    rates = pgbench.get(workload)
    return median(rates) if rates else None


def speed(pgbench: Mapping[str, list[float]]) -> float | None:
    """Return the speed of the machine, which is the geometric mean of pgbench's two rates.

    Returns None if a rate is missing.
    """
    select, update = pgbench_rate(pgbench, SELECT), pgbench_rate(pgbench, UPDATE)
    return sqrt(select * update) if select and update else None


def ratio(figure: Figure, rate: float | None) -> float | None:
    """Return a figure relative to pgbench's `rate` in transactions per second.

    For a rate, this is the number of units per transaction.  For a time, it is the number of
    transactions that one of pgbench's two clients makes in that time.  Returns None for other
    units, and if `rate` is missing.
    """
    if not rate:
        return None
    if figure.is_rate:
        return figure.value / rate
    return figure.value / 1000 * rate / 2 if figure.is_time else None


def peer_ratio(figure: Figure) -> float | None:
    """Return the ratio of a figure to the rate of BOINC's server, or None without this rate."""
    peer_rate = peer.RATES.get(figure.key)
    return figure.value / peer_rate if peer_rate else None


@dataclass(frozen=True, slots=True)
class Aim:
    """The aim for a figure.  `value` is a minimum, or a maximum if `at_most` is True."""

    value: float
    at_most: bool = False

    def share(self, figure: Figure) -> float:
        """Return the fraction of the aim that the figure reaches; from 1 on, the aim is met."""
        if self.at_most:
            return self.value / figure.value if figure.value > 0 else float("inf")
        return figure.value / self.value


def aim(figure: Figure) -> Aim | None:
    if figure.key in peer.AIMS_AT_MOST:
        return Aim(peer.AIMS_AT_MOST[figure.key], at_most=True)
    return Aim(peer.AIMS[figure.key]) if figure.key in peer.AIMS else None


def change(figure: Figure, run: Run, before: Mapping[str, Any] | None) -> float | None:
    """Return the improvement of a figure since the previous run, relative to the machine's speed.

    A rate that is twice as high or a time that is half as long has the improvement 2.  Returns None
    for other units, if the previous run lacks the figure, or if a run lacks pgbench's rates.
    """
    now = speed(run.pgbench)
    speed_before = speed(before["pgbench"]) if before else None
    value = _value(before, figure.key)
    if not (before and value and figure.value):
        return None
    if figure.is_rate:
        return (figure.value / now) / (value / speed_before) if now and speed_before else None
    if figure.is_time:
        return (value * speed_before) / (figure.value * now) if now and speed_before else None
    return None


def _value(before: Mapping[str, Any] | None, key: str) -> float | None:
    figures: Iterable[Mapping[str, Any]] = before["figures"] if before else ()
    return next((float(each["value"]) for each in figures if each["key"] == key), None)


# Storage


def store(run: Run, folder: Path, also: Path | None = None) -> None:
    """Write ``last.json`` and the file `also`, and add a line to ``history.jsonl``."""
    entry = run.as_json()
    text = json.dumps(entry, indent=2) + "\n"
    for path in filter(None, (folder / "last.json", also)):
        path.write_text(text, encoding="utf-8")
    with (folder / "history.jsonl").open("a", encoding="utf-8") as history:
        history.write(json.dumps(entry) + "\n")


def last(folder: Path, *, size: str) -> dict[str, Mapping[str, Any]]:
    """Return the latest stored run of this size that contains a figure, by the figure's key."""
    try:
        lines = (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    runs_by_key: dict[str, Mapping[str, Any]] = {}
    for line in lines:
        entry = json.loads(line)
        # Runs of older versions have no size.
        if entry.get("size") == size:
            runs_by_key |= {figure["key"]: entry for figure in entry["figures"]}
    return runs_by_key
