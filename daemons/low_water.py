"""Low-water marks of queues, so that passes do not scan finished rows.

An index keeps the entry of a row that left a queue for as long as an open transaction may still see
the row: a dump, a report, a forgotten `BEGIN`.  Until that ends, a read from the head of the queue
scans the entries of all rows that were finished since.  So each process remembers how far it has
read and begins there.  Rows that were added before the mark are found by reading from the head
again, as often as that takes little of its time.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, Generic, TypeVar

Place = TypeVar("Place")
Rows = list[Any]

#: After a read from the head, the next one waits for this many times its duration: reads from the
#: head take at most a twentieth of the time.
REST = 20


class LowWaterMark(Generic[Place]):
    """Where one process begins to read one queue: at its head, or at `mark`."""

    def __init__(self, head: Place) -> None:
        self._head = self.mark = head
        self._next_full_read_at = 0.0

    def read(self, look: Callable[[Place], Rows]) -> Rows:
        """Return `look(mark)`, or `look(head)` if that is empty or a read from the head is due."""
        began = monotonic()
        if began < self._next_full_read_at and (rows := look(self.mark)):
            return rows
        began = monotonic()
        rows = look(self._head)
        ended = monotonic()
        self._next_full_read_at = ended + REST * (ended - began)
        return rows
