"""Where looks through unsent results begin: two short memories of this process.

Both save work and decide nothing: who finds nothing behind a mark looks from the beginning, so that
"no work" is said only when it is true.  Forgetting is harmless, and necessary: a retry of an old
workunit, or work of a higher priority, may have come before the mark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduler.dispatch.candidates import BEFORE_ALL, Cursor, LaneKey

Cursors = Mapping[LaneKey, Cursor]


class HostMarks:
    """Up to where hosts found nothing in each lane.

    An account whose own workunits fill the head of a lane begins where it last found something.
    Only a host that had to turn pages in vain is remembered.
    """

    LIFETIME = timedelta(seconds=10)
    MOST = 10_000

    def __init__(self) -> None:
        self._cursors: dict[int, tuple[datetime, Cursors]] = {}

    def of(self, host_id: int, *, now: datetime) -> Cursors:
        """Where a host begins; empty: at the beginning."""
        kept_at, cursors = self._cursors.get(host_id, (now, {}))
        if abs(now - kept_at) > self.LIFETIME:
            self._cursors.pop(host_id, None)
            return {}
        return cursors

    def keep(self, host_id: int, cursors: Cursors, *, now: datetime) -> None:
        """Remember up to where a host found nothing."""
        if len(self._cursors) >= self.MOST:
            self._cursors.clear()
        self._cursors[host_id] = (now, dict(cursors))


@dataclass(slots=True)
class _Water:
    """One lane: its first unsent result as last seen, and what tells whether to begin there."""

    begin: Cursor = BEFORE_ALL
    looked_at: datetime | None = None
    given: int = 0
    seconds: float = 0.0


class LowWater:
    """Where the last look through a lane found its first unsent result.

    What was sent leaves dead entries at the head of the index, and while any transaction of the
    database is old they stay there: millions of them would be walked for each claim.  So looks
    begin at the mark, and every `EVERY` one goes from the very beginning; where even that is slow,
    it is made the more rarely, so that it takes a small share of the time.  Only a lane off which
    this process has sent much has a mark.
    """

    EVERY = timedelta(seconds=1)
    MUCH = 500
    #: A look from the beginning takes at most one part in so many of the time.
    SHARE = 20
    MOST = 10_000

    def __init__(self) -> None:
        self._waters: dict[LaneKey, _Water] = {}

    def of(self, lane: LaneKey, *, now: datetime) -> Cursor:
        """Where to begin a look through a lane."""
        water = self._waters.get(lane)
        if water is None or water.looked_at is None or water.given < self.MUCH:
            return BEFORE_ALL
        rest = max(self.EVERY, timedelta(seconds=water.seconds * self.SHARE))
        return BEFORE_ALL if abs(now - water.looked_at) >= rest else water.begin

    def saw(
        self, lane: LaneKey, *, after: Cursor, first: Cursor | None, seconds: float, now: datetime
    ) -> None:
        """Remember what a look through a lane, from `after` on, found first, and how long it took.

        Nothing found says nothing: somebody else may just hold a mark further on.
        """
        water = self._water(lane)
        if after == BEFORE_ALL:
            water.looked_at, water.seconds = now, seconds
        if first is not None and after in (BEFORE_ALL, water.begin):
            water.begin = first

    def gave(self, lane: LaneKey, count: int = 1) -> None:
        """Count what was sent off a lane."""
        self._water(lane).given += count

    def _water(self, lane: LaneKey) -> _Water:
        if len(self._waters) >= self.MOST:
            self._waters.clear()
        return self._waters.setdefault(lane, _Water())
