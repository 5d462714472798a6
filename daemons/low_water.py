"""Reads queues from low-water marks, so that passes do not scan finished rows."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar

from scheduler.sql.low_water import LowWaterMark

Position = TypeVar("Position")
Rows = list[Any]

#: The minimum pause after a read from the head, as a multiple of the read's duration.  So these
#: reads take at most a twentieth of the time.
REST = 20


def read(queue: LowWaterMark[Position], look: Callable[[Position], Rows]) -> Rows:
    """Return the rows of a queue that `look` reads after the queue's mark or from its head.

    The queue is read from its head if there are no rows after the mark, or if a full read is due.
    """
    if not queue.is_full_read_due(monotonic()) and (rows := look(queue.mark)):
        return rows
    began = monotonic()
    rows = look(queue.head)
    ended = monotonic()
    queue.record_full_read(ended, REST * (ended - began))
    return rows
