"""Reads what a running result says of itself in a trickle [pure]."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite

#: Of one result a sample is kept at most so often.
SAMPLE_EVERY = timedelta(minutes=1)
_ELEMENT = re.compile(r"<(\w{1,40})>([^<]{1,60})</\1>")
#: The largest value of each number; docs/protocol.md lists them with those of requests.
MAX_VALUES = {
    "fraction_done": 1.0,
    "cpu_time": 1e10,
    "elapsed_time": 1e10,
    "memory_bytes": 1e18,
    "gpu_usage": 1.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """What was said; seconds, bytes, fractions of 1; None for what was not said."""

    fraction_done: float | None = None
    cpu_time: float | None = None
    elapsed_time: float | None = None
    memory_bytes: float | None = None
    gpu_usage: float | None = None

    @property
    def anything(self) -> bool:
        """Whether there is anything to keep."""
        return any(getattr(self, name) is not None for name in MAX_VALUES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Readings of a result at a moment."""

    result_id: int
    at: datetime
    readings: Readings


def readings(text: str) -> Readings:
    """Read a trickle's elements; what is no number, or none that can be, is not said.

    >>> readings("<fraction_done>1.5</fraction_done><cpu_time>x</cpu_time>").fraction_done
    1.0
    """
    numbers = {name: _number(value) for name, value in _ELEMENT.findall(text) if name in MAX_VALUES}
    return Readings(
        **{
            name: None if value is None else min(value, MAX_VALUES[name])
            for name, value in numbers.items()
        }
    )


def moment_of(said_at: datetime, received_at: datetime) -> datetime:
    """When it was said: by the client's clock, which is not believed to be ahead of ours."""
    return min(said_at, received_at)


def thin(samples: Iterable[Sample]) -> list[Sample]:
    """Keep of each result one sample per `SAMPLE_EVERY`, the earliest; ordered by time."""
    last: dict[int, datetime] = {}
    kept = []
    for sample in sorted(samples, key=lambda one: one.at):
        before = last.get(sample.result_id)
        if before is None or sample.at >= before + SAMPLE_EVERY:
            last[sample.result_id] = sample.at
            kept.append(sample)
    return kept


def progress(samples: Iterable[Sample]) -> dict[int, float]:
    """The last fraction that each result said to have done."""
    ordered = sorted(samples, key=lambda one: one.at)
    return {
        one.result_id: one.readings.fraction_done
        for one in ordered
        if one.readings.fraction_done is not None
    }


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) and value >= 0 else None
