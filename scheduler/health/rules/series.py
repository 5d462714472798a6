"""Derives levels and rates over time from samples of the project's figures [pure]."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

HOUR = timedelta(hours=1)
#: Two samples belong together if at most this many steps are between them: after a longer pause,
#: when the housekeeper did not run, nothing is known.
MAX_STEPS = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures at one time, by name."""

    at: datetime
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Point:
    """A value at one time; None as `value` interrupts the line."""

    at: datetime
    value: float | None


def levels(samples: Sequence[Sample], name: str, *, step: timedelta) -> tuple[Point, ...]:
    """Return the figure `name` of each sample, with an interruption where samples are missing."""
    return tuple(_interrupted(((s.at, s.figures.get(name)) for s in samples), step))


def rates(samples: Sequence[Sample], *names: str, step: timedelta) -> tuple[Point, ...]:
    """Return the growth per hour of the sum of the figures `names`, at the end of each step.

    A sum that falls, as after a restored backup, has no rate.

    >>> noon = datetime(2026, 1, 1, 12)
    >>> two = [Sample(noon, {"done": 10}), Sample(noon + HOUR / 2, {"done": 40})]
    >>> [point.value for point in rates(two, "done", step=HOUR / 2)]
    [60.0]
    """
    grown = ((later.at, _rate(earlier, later, names, step)) for earlier, later in pairwise(samples))
    return tuple(_interrupted(grown, step))


def newest_rate(samples: Sequence[Sample], *names: str, within: timedelta) -> float | None:
    """Return the growth per hour of a sum from the first sample of the last `within` to the last.

    Samples without any of the figures are ignored.  None if fewer than two samples are that young,
    or if the sum fell.
    """
    samples = [sample for sample in samples if not sample.figures.keys().isdisjoint(names)]
    if not samples:
        return None
    young = [sample for sample in samples if samples[-1].at - sample.at <= within]
    return _rate(young[0], young[-1], names, within)


def _rate(earlier: Sample, later: Sample, names: Iterable[str], step: timedelta) -> float | None:
    took = later.at - earlier.at
    grown = _sum(later, names) - _sum(earlier, names)
    if took <= timedelta(0) or took > step * MAX_STEPS or grown < 0:
        return None
    return grown * (HOUR / took)


def _sum(sample: Sample, names: Iterable[str]) -> float:
    return sum(sample.figures.get(name, 0) for name in names)


def _interrupted(
    values: Iterable[tuple[datetime, float | None]], step: timedelta
) -> Iterator[Point]:
    """Yield the values as points, and a point without a value in each long pause."""
    before: datetime | None = None
    for at, value in values:
        if before is not None and at - before > step * MAX_STEPS:
            yield Point(before + step, None)
        yield Point(at, value)
        before = at
