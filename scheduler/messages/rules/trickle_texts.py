"""Reads progress and resource use from the text of a trickle [pure]."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite

#: The shortest time between two stored samples of a result.
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
    """The values in a trickle: times in seconds, shares from 0 to 1; None if a value is missing."""

    fraction_done: float | None = None
    cpu_time: float | None = None
    elapsed_time: float | None = None
    memory_bytes: float | None = None
    gpu_usage: float | None = None

    @property
    def anything(self) -> bool:
        """Whether there is any value to store."""
        return any(getattr(self, name) is not None for name in MAX_VALUES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The readings of a result at one time."""

    result_id: int
    at: datetime
    readings: Readings


def readings(text: str) -> Readings:
    """Read the elements of a trickle; a text that is not a finite number from 0 up is ignored.

    A number that is too large becomes the largest value of its kind.

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
    """Return when the trickle was made by the client's clock, but not later than it arrived."""
    return min(said_at, received_at)


def thin(samples: Iterable[Sample]) -> list[Sample]:
    """Return the earliest sample of each result in every `SAMPLE_EVERY`, ordered by time."""
    last: dict[int, datetime] = {}
    kept = []
    for sample in sorted(samples, key=lambda sample: sample.at):
        before = last.get(sample.result_id)
        if before is None or sample.at >= before + SAMPLE_EVERY:
            last[sample.result_id] = sample.at
            kept.append(sample)
    return kept


def progress(samples: Iterable[Sample]) -> dict[int, float]:
    """Return the last reported fraction of each result."""
    ordered = sorted(samples, key=lambda sample: sample.at)
    return {
        sample.result_id: sample.readings.fraction_done
        for sample in ordered
        if sample.readings.fraction_done is not None
    }


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) and value >= 0 else None
