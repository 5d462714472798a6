"""Reads progress and resource use from the text of a trickle [pure]."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite

#: The varieties that are handled for every app; BOINC's wrapper sends ``cpu_time``.
BUILT_IN_VARIETIES = frozenset({"progress", "usage", "cpu_time"})
#: The shortest time between two stored samples of a result.
SAMPLE_EVERY = timedelta(minutes=1)
_ELEMENT = re.compile(r"<(\w{1,40})>([^<]{1,60})</\1>")
#: The maximum of each value, as docs/protocol.md lists it.
MAX_VALUES = {
    "fraction_done": 1.0,
    "cpu_time": 1e10,
    "elapsed_time": 1e10,
    "memory_bytes": 1e18,
    "gpu_usage": 1.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """The values in a trickle; None means that a value is missing.

    The times are in seconds.  `fraction_done` and `gpu_usage` are between 0 and 1.
    """

    fraction_done: float | None = None
    cpu_time: float | None = None
    elapsed_time: float | None = None
    memory_bytes: float | None = None
    gpu_usage: float | None = None

    @property
    def anything(self) -> bool:
        """Whether at least one value is present."""
        return any(getattr(self, name) is not None for name in MAX_VALUES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    result_id: int
    at: datetime
    readings: Readings


def readings(text: str) -> Readings:
    """Return the values in a trickle; negative and infinite values and NaN are ignored.

    A value above its maximum in `MAX_VALUES` is replaced by the maximum.

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


def moment_of(said_at: datetime, received_at: datetime, *, sent_at: datetime | None) -> datetime:
    """Return the time of a trickle by the client's clock, or `received_at` if that is impossible.

    A trickle about a result cannot be older than `sent_at`, when the result was sent.  So a result
    has at most one sample for each `SAMPLE_EVERY` since then, whatever times its host gives.
    """
    is_possible = said_at <= received_at and (sent_at is None or said_at >= sent_at)
    return said_at if is_possible else received_at


def thin(samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples in order of time, without samples that are too close together.

    A sample is dropped if it is less than `SAMPLE_EVERY` after the last kept sample of its result.
    """
    last: dict[int, datetime] = {}
    kept = []
    for sample in sorted(samples, key=lambda sample: sample.at):
        before = last.get(sample.result_id)
        if before is None or sample.at >= before + SAMPLE_EVERY:
            last[sample.result_id] = sample.at
            kept.append(sample)
    return kept


def progress(samples: Iterable[Sample]) -> dict[int, float]:
    """Return the last reported `fraction_done` by result id."""
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
