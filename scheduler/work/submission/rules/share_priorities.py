"""Fair share: priorities follow how far each submitter has gone [pure].

Source: BOINC's linear-bounded model.  Every submitter has a logical clock.  It advances by the work
that he submits, divided by his part of the project's speed, and never stands before the present:
who was idle saves nothing up.  A workunit's priority is its logical start, negated, in seconds: the
earliest starts first, and the index that orders results by priority serves it as it is.  Nobody
starves: what starts at some logical moment is ahead of all that is submitted after that moment has
come.  What others leave unused is anybody's.  Explicit priorities, staff's, from 0 upwards, are
ahead of all shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

#: Second 0 of the priorities; 68 years follow, as many as an integer column holds.
EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
#: As many shares are a whole project.  One number for all, lest the clock of who comes first be
#: quicker than that of who comes second.
SHARES_OF_A_PROJECT = 10
#: The lowest priority, of what has no share at all.
LAST = -(2**31 - 1)


@dataclass(frozen=True, slots=True)
class Entitlement:
    """A submitter's share of a project that does `fpops` operations a second."""

    share: float
    fpops: float

    @property
    def speed(self) -> float:
        """How many operations a second the submitter is entitled to."""
        return self.fpops * max(self.share, 0.0) / SHARES_OF_A_PROJECT


@dataclass(frozen=True, slots=True)
class Schedule:
    """A priority for each workunit, and the submitter's logical clock afterwards."""

    priorities: tuple[int, ...]
    logical_start_at: datetime


def logical_start(logical_start_at: datetime | None, *, now: datetime) -> datetime:
    """Where a submitter's next work starts: never before the present."""
    return now if logical_start_at is None else max(logical_start_at, now)


def priority_at(logical: datetime) -> int:
    """The priority of what starts at a logical moment: higher the earlier, always negative."""
    return max(LAST, min(-1, -int((logical - EPOCH).total_seconds())))


def schedule(
    operations: Sequence[float],
    *,
    logical_start_at: datetime | None,
    entitlement: Entitlement,
    now: datetime,
) -> Schedule:
    """Line up workunits of so many floating-point operations each, one after the other.

    Each starts where the one before it would end, were it computed at the submitter's own speed.
    A submitter without share comes last, and his clock stands still.
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
