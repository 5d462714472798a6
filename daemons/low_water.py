"""Remembers where a queue begins, so that passes need not walk over its past.

An index keeps an entry of a row that left a queue for as long as some transaction is open that may
still see the row: a dump, a report, a forgotten `BEGIN`.  Until that ends, whoever reads the queue
from its head walks over all that was done since.  So a process remembers up to where it has looked
and begins there; what may have come behind its back it finds by looking from the head again, as
often as that costs little of its time.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, Generic, TypeVar

Place = TypeVar("Place")
Rows = list[Any]

#: After a look from the head, none for so many times as long as it took: a twentieth of the time.
REST = 20


class LowWater(Generic[Place]):
    """Where one process begins to read one queue: at its head, or at the mark that it left."""

    def __init__(self, head: Place) -> None:
        self._head = self.mark = head
        self._rests_until = 0.0

    def read(self, look: Callable[[Place], Rows]) -> Rows:
        """Look from the mark or, if it is time for that or nothing is there, from the head."""
        began = monotonic()
        if began < self._rests_until and (rows := look(self.mark)):
            return rows
        began = monotonic()
        rows = look(self._head)
        ended = monotonic()
        self._rests_until = ended + REST * (ended - began)
        return rows
