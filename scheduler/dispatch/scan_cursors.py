"""Cursors at which scans of unsent results begin, in two per-process caches.

Both save work and change no decision.  A scan that finds nothing behind its cursor starts again at
the beginning, so "no work" is reported only when it is true.  Dropping entries is harmless, and
they must expire: a retry of an old workunit, or work of a higher priority, may have been inserted
before the cursor.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from scheduler.dispatch.candidates import BEFORE_ALL, Cursor, StreamKey
from scheduler.sql.low_water import LowWaterMark

Cursors = Mapping[StreamKey, Cursor]


class HostScanCursors:
    """Per host, the cursor in each stream up to which nothing was feasible.

    A host whose account's own workunits fill the head of a stream starts where it last found
    something.  Only hosts that had to read further pages without success are kept.
    """

    LIFETIME = timedelta(seconds=10)
    MAX_HOSTS = 10_000

    def __init__(self) -> None:
        self._cursors: dict[int, tuple[datetime, Cursors]] = {}

    def of(self, host_id: int, *, now: datetime) -> Cursors:
        """Return where a host's scan begins; empty if at the beginning."""
        kept_at, cursors = self._cursors.get(host_id, (now, {}))
        if abs(now - kept_at) > self.LIFETIME:
            self._cursors.pop(host_id, None)
            return {}
        return cursors

    def keep(self, host_id: int, cursors: Cursors, *, now: datetime) -> None:
        """Store the cursors up to which a host found nothing."""
        if len(self._cursors) >= self.MAX_HOSTS:
            self._cursors.clear()
        self._cursors[host_id] = (now, dict(cursors))


class _StreamMark(LowWaterMark[Cursor]):
    """The first unsent result of a stream at the last scan, and how many results were sent."""

    sent: int = 0


class LowWaterMarks:
    """Per candidate stream, the first unsent result at the last scan.

    Sent results leave dead entries at the head of the index, which stay there while any transaction
    of the database is old: each claim would walk over millions of them.  So scans begin at the
    mark, and one every `FULL_SCAN_INTERVAL` begins at the very beginning.  Where a full scan is
    slow, it is made less often, so that it takes at most one part in `FULL_SCAN_SHARE` of the time.
    Only a stream from which this process has sent at least `MIN_SENT` results has a mark.
    """

    FULL_SCAN_INTERVAL = timedelta(seconds=1)
    MIN_SENT = 500
    #: A scan from the beginning takes at most 1/20 of the time.
    FULL_SCAN_SHARE = 20
    MAX_STREAMS = 10_000

    def __init__(self) -> None:
        self._marks: dict[StreamKey, _StreamMark] = {}

    def of(self, stream: StreamKey, *, now: datetime) -> Cursor:
        """Return the cursor at which to begin a scan of a stream."""
        mark = self._marks.get(stream)
        if mark is None or mark.sent < self.MIN_SENT or mark.is_full_read_due(now.timestamp()):
            return BEFORE_ALL
        return mark.mark

    def record_scan(
        self,
        stream: StreamKey,
        *,
        after: Cursor,
        first: Cursor | None,
        seconds: float,
        now: datetime,
    ) -> None:
        """Record the first result and the duration of a scan that began at `after`.

        A scan without results leaves the mark where it is: another process may hold a mark further
        on.
        """
        mark = self._mark(stream)
        if after == BEFORE_ALL:
            pause = max(self.FULL_SCAN_INTERVAL.total_seconds(), seconds * self.FULL_SCAN_SHARE)
            mark.record_full_read(now.timestamp(), pause)
        if first is not None and after in (BEFORE_ALL, mark.mark):
            mark.mark = first

    def count_sent(self, stream: StreamKey, count: int = 1) -> None:
        """Count results sent from a stream."""
        self._mark(stream).sent += count

    def _mark(self, stream: StreamKey) -> _StreamMark:
        if len(self._marks) >= self.MAX_STREAMS:
            self._marks.clear()
        return self._marks.setdefault(stream, _StreamMark(BEFORE_ALL))
