"""Computes fair-share priorities from submitters' logical clocks [pure].

Source: BOINC's linear-bounded model.  Every submitter has a logical clock.  It advances by the work
that they submit, divided by their part of the project's speed, and is never behind the present, so
that idle submitters do not accumulate entitlement.  A workunit's priority is its logical start in
seconds, negated, so that the index of results by priority returns the earliest start first.  There
is no starvation: a workunit with a given logical start precedes all work that is submitted after
that time.  Speed that some submitters do not use is available to all others.  Explicit priorities,
set by staff, are 0 or more and precede all fair-share work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

#: The time of priority 0; an integer column can hold the seconds of the 68 years after it.
EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
#: Number of shares that make up the whole project.  It is the same for all submitters, so that the
#: clock of the first submitter does not run faster than that of the second.
SHARES_OF_A_PROJECT = 10
#: The lowest priority, for work of submitters without a share.
LAST = -(2**31 - 1)


@dataclass(frozen=True, slots=True)
class Entitlement:
    """A submitter's share of a project with a speed of `fpops` operations per second."""

    share: float
    fpops: float

    @property
    def speed(self) -> float:
        """The submitter's part of the project's speed, in operations per second."""
        return self.fpops * max(self.share, 0.0) / SHARES_OF_A_PROJECT


@dataclass(frozen=True, slots=True)
class Schedule:
    """A priority for each workunit, and the submitter's logical clock afterwards."""

    priorities: tuple[int, ...]
    logical_start_at: datetime


def logical_start(logical_start_at: datetime | None, *, now: datetime) -> datetime:
    """Return the logical start of a submitter's next work: the clock, but at least `now`."""
    return now if logical_start_at is None else max(logical_start_at, now)


def priority_at(logical: datetime) -> int:
    """Return the priority of a logical start: negative, and higher for an earlier start."""
    return max(LAST, min(-1, -int((logical - EPOCH).total_seconds())))


def schedule(
    operations: Sequence[float],
    *,
    logical_start_at: datetime | None,
    entitlement: Entitlement,
    now: datetime,
) -> Schedule:
    """Schedule workunits one after the other.

    `operations` are the floating-point operations of each workunit.  Each workunit starts when the
    previous one would end at the speed of the entitlement.  Work of a submitter without a share has
    priority `LAST` and does not advance the clock.
    """
    start = logical_start(logical_start_at, now=now)
    if entitlement.speed <= 0:
        return Schedule((LAST,) * len(operations), start)
    first, elapsed = (start - EPOCH).total_seconds(), 0.0
    priorities = []
    for work in operations:
        priorities.append(max(LAST, min(-1, -int(first + elapsed))))
        elapsed += work / entitlement.speed
    end = min(first + elapsed, float(-LAST))
    return Schedule(tuple(priorities), EPOCH + timedelta(seconds=end))
