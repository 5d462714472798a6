"""Figures beside pgbench's, the peer's, the aims and the last run's."""

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
    """The median of a workload's rates, transactions per second; None without any."""
    said = pgbench.get(workload)
    return median(said) if said else None


def speed(pgbench: Mapping[str, list[float]]) -> float | None:
    """How fast the machine was: the geometric mean of pgbench's two rates."""
    select, update = pgbench_rate(pgbench, SELECT), pgbench_rate(pgbench, UPDATE)
    return sqrt(select * update) if select and update else None


def ratio(figure: Figure, rate: float | None) -> float | None:
    """A figure in terms of a rate: units per transaction, or transactions per time.

    A time is given as the number of transactions that one client makes meanwhile when two share
    the rate; None for what has nothing to do with speed.
    """
    if not rate:
        return None
    if figure.is_rate:
        return figure.value / rate
    return figure.value / 1000 * rate / 2 if figure.is_time else None


def beside_peer(figure: Figure) -> float | None:
    """How many times the peer's rate ours is."""
    theirs = peer.RATES.get(figure.key)
    return figure.value / theirs if theirs else None


@dataclass(frozen=True, slots=True)
class Aim:
    """What a figure should be, at least or at most."""

    value: float
    at_most: bool = False

    def share(self, figure: Figure) -> float:
        """How much of the aim is reached; 1 and more is met."""
        if self.at_most:
            return self.value / figure.value if figure.value > 0 else float("inf")
        return figure.value / self.value


def aim(figure: Figure) -> Aim | None:
    """The aim of a line, if it has one."""
    if figure.key in peer.AIMS_AT_MOST:
        return Aim(peer.AIMS_AT_MOST[figure.key], at_most=True)
    return Aim(peer.AIMS[figure.key]) if figure.key in peer.AIMS else None


def change(figure: Figure, run: Run, before: Mapping[str, Any] | None) -> float | None:
    """How many times as good as in the run before, the machine's speed taken out of both.

    More than 1 is better, for rates as for times; None if the line or pgbench is missing there.
    """
    now = speed(run.pgbench)
    then = speed(before["pgbench"]) if before else None
    value = _value(before, figure.key)
    if not (before and value and figure.value):
        return None
    if figure.is_rate:
        return (figure.value / now) / (value / then) if now and then else None
    if figure.is_time:
        return (value * then) / (figure.value * now) if now and then else None
    return None


def _value(before: Mapping[str, Any] | None, key: str) -> float | None:
    figures: Iterable[Mapping[str, Any]] = before["figures"] if before else ()
    return next((float(each["value"]) for each in figures if each["key"] == key), None)


# Kept


def keep(run: Run, folder: Path, also: Path | None = None) -> None:
    """Write ``last.json``, add a line to ``history.jsonl``."""
    entry = run.as_json()
    text = json.dumps(entry, indent=2) + "\n"
    for path in filter(None, (folder / "last.json", also)):
        path.write_text(text, encoding="utf-8")
    with (folder / "history.jsonl").open("a", encoding="utf-8") as history:
        history.write(json.dumps(entry) + "\n")


def last(folder: Path, *, size: str) -> dict[str, Mapping[str, Any]]:
    """For each line, the newest kept run of the same size that measured it."""
    try:
        lines = (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    found: dict[str, Mapping[str, Any]] = {}
    for line in lines:
        entry = json.loads(line)
        # Runs of before this form was kept have no size.
        if entry.get("size") == size:
            found |= {figure["key"]: entry for figure in entry["figures"]}
    return found
