"""Cursors at which scans of unsent results begin, in two per-process caches.

The caches shorten scans but do not change which hosts receive work: a scan that finds no feasible
result after its cursor is repeated from the beginning.  Entries may be dropped at any time.  They
must expire, because a retry of an old workunit, or work of a higher priority, may have been
inserted before the cursor.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from scheduler.dispatch.candidates import BEFORE_ALL, Cursor, StreamKey
from scheduler.sql.low_water import LowWaterMark

Cursors = Mapping[StreamKey, Cursor]


class HostScanCursors:
    """Caches, by host and stream, the cursor before which no candidate was feasible.

    A scan skips the head of a stream if it contains no feasible result for the host, for example
    because its results are replicas of workunits that the account has computed.
    """

    LIFETIME = timedelta(seconds=10)
    MAX_HOSTS = 10_000

    def __init__(self) -> None:
        self._cursors: dict[int, tuple[datetime, Cursors]] = {}

    def of(self, host_id: int, *, now: datetime) -> Cursors:
        """Return the cursors at which a host's scan begins, by stream, or {} after `LIFETIME`.

        A stream without a cursor is scanned from its head.
        """
        kept_at, cursors = self._cursors.get(host_id, (now, {}))
        if abs(now - kept_at) > self.LIFETIME:
            self._cursors.pop(host_id, None)
            return {}
        return cursors

    def keep(self, host_id: int, cursors: Cursors, *, now: datetime) -> None:
        """Store a host's cursors; the whole cache is cleared first if it is full."""
        if len(self._cursors) >= self.MAX_HOSTS:
            self._cursors.clear()
        self._cursors[host_id] = (now, dict(cursors))


class _StreamMark(LowWaterMark[Cursor]):
    """The low-water mark of a stream, and the number of results that this process sent from it."""

    sent: int = 0


class LowWaterMarks:
    """Caches, by candidate stream, the mark: a cursor just before the first unsent result.

    Sent results leave dead entries at the head of the index.  While an old transaction is open,
    dead entries cannot be removed, and each scan would read millions of them.  So scans begin at
    the mark.  One scan per `FULL_SCAN_INTERVAL` begins at the head of the stream; slow full scans
    are made less often, so that they take at most 1 / `FULL_SCAN_SHARE` of the time.  A mark is
    used only for a stream from which this process has sent at least `MIN_SENT` results.
    """

    FULL_SCAN_INTERVAL = timedelta(seconds=1)
    MIN_SENT = 500
    #: Scans from the head take at most 1/20 of the time.
    FULL_SCAN_SHARE = 20
    MAX_STREAMS = 10_000

    def __init__(self) -> None:
        self._marks: dict[StreamKey, _StreamMark] = {}

    def of(self, stream: StreamKey, *, now: datetime) -> Cursor:
        """Return the cursor at which a scan of a stream begins; a full scan has `BEFORE_ALL`."""
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
        """Update a stream's mark after a scan that began at `after` and took `seconds`.

        `first` is the cursor just before the first result of the scan; None, for a scan without
        results, does not move the mark.
        """
        mark = self._mark(stream)
        if after == BEFORE_ALL:
            pause = max(self.FULL_SCAN_INTERVAL.total_seconds(), seconds * self.FULL_SCAN_SHARE)
            mark.record_full_read(now.timestamp(), pause)
        if first is not None and after in (BEFORE_ALL, mark.mark):
            mark.mark = first

    def count_sent(self, stream: StreamKey, count: int = 1) -> None:
        self._mark(stream).sent += count

    def _mark(self, stream: StreamKey) -> _StreamMark:
        if len(self._marks) >= self.MAX_STREAMS:
            self._marks.clear()
        return self._marks.setdefault(stream, _StreamMark(BEFORE_ALL))
