"""Stores the position (low-water mark) where a process begins to read a queue.

An index keeps the entry of a row that left a queue while an open transaction may still see the row:
a dump, a report, or an idle transaction.  Until this transaction ends, a read from the head of the
queue scans the entries of all rows that left the queue since it began.  So each process stores the
position up to which it has read, and begins there.  To find rows that were added before this mark,
it reads from the head again, with pauses that keep the cost of these reads small.
"""

from __future__ import annotations

from math import inf
from typing import Generic, TypeVar

Position = TypeVar("Position")


class LowWaterMark(Generic[Position]):
    """The positions at which a process begins to read a queue: the `head` and the `mark`.

    Times are in seconds.
    """

    def __init__(self, head: Position) -> None:
        self.head = self.mark = head
        self._full_read_at, self._pause = -inf, 0.0

    def is_full_read_due(self, now: float) -> bool:
        """Return whether the next read must begin at the head."""
        return abs(now - self._full_read_at) >= self._pause

    def record_full_read(self, now: float, pause: float) -> None:
        """Record a read from the head; the next full read is due `pause` seconds later.

        A full read is also due if the clock is set back by at least `pause` seconds.
        """
        self._full_read_at, self._pause = now, pause
