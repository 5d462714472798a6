"""Collects the calls of several threads in batches, which one thread answers.

The first thread to arrive while there is no leader becomes the leader.  The leader takes the queued
calls, up to the limit of a batch, answers them, and sets the reply of each call.  Then the thread
of the first call still in the queue becomes the next leader.  So a single call is answered at once,
and under load several calls share the cost of a batch.  If a batch of several calls ended less than
`RECENT_SECONDS` ago, the leader first waits `GATHER_SECONDS`, so that more calls join the batch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Generic, TypeVar

#: How long a leader waits for more calls, if a batch of several calls ended less than
#: `RECENT_SECONDS` ago: calls are then frequent, and each costs less in a larger batch.
GATHER_SECONDS, RECENT_SECONDS = 0.003, 0.05

CallT = TypeVar("CallT")
ReplyT = TypeVar("ReplyT")


class QueueFull(Exception):
    """Too many calls are queued. Hint: retry after a random delay."""


@dataclass(slots=True, eq=False)
class _PendingCall(Generic[CallT, ReplyT]):
    """A queued call; `turn` is set with `reply`, or when a waiting thread becomes the leader."""

    call: CallT
    turn: threading.Event = field(default_factory=threading.Event)
    reply: ReplyT | Exception | None = None


class Batches(Generic[CallT, ReplyT]):
    """Queues the calls of many threads for a function that answers several calls at once.

    `answer_all` is called with at most `max_batch` calls.  For each call it returns the reply, or
    the exception to raise in the thread of the call.
    """

    def __init__(
        self,
        answer_all: Callable[[Sequence[CallT]], Sequence[ReplyT | Exception]],
        *,
        max_batch: int,
    ) -> None:
        self._answer_all = answer_all
        self._max_batch = max_batch
        self._lock = threading.Lock()
        self._queue: list[_PendingCall[CallT, ReplyT]] = []
        self._has_leader = False
        self._busy_until = 0.0

    @property
    def is_crowded(self) -> bool:
        """Whether more calls are queued than fit into the next batch."""
        return len(self._queue) > self._max_batch

    def answer(self, call: CallT, *, max_queued: int) -> ReplyT:
        """Return the reply to a call, answered alone or in a batch.

        Raises `QueueFull` if `max_queued` calls are queued already, or the exception that
        `answer_all` raised or returned for the call.
        """
        pending: _PendingCall[CallT, ReplyT] = _PendingCall(call)
        with self._lock:
            if len(self._queue) >= max_queued:
                raise QueueFull
            self._queue.append(pending)
            is_leader, self._has_leader = not self._has_leader, True
        if not is_leader:
            pending.turn.wait()
        if pending.reply is None:  # this thread is the leader
            batch = self._take_batch()
            replies: Sequence[ReplyT | Exception] = ()
            error: Exception = RuntimeError("The batch was not answered.")
            try:
                replies = self._answer_all([pending.call for pending in batch])
            except Exception as raised:  # noqa: BLE001  it is raised again in each thread
                error = raised
            finally:
                self._hand_out(batch, [*replies, *[error] * (len(batch) - len(replies))])
        if isinstance(pending.reply, Exception):
            raise pending.reply
        assert pending.reply is not None
        return pending.reply

    def _take_batch(self) -> list[_PendingCall[CallT, ReplyT]]:
        """Remove up to `max_batch` calls from the queue; return them, this thread's call first."""
        if monotonic() < self._busy_until:
            sleep(GATHER_SECONDS)
        with self._lock:
            batch = self._queue[: self._max_batch]
            self._queue = self._queue[self._max_batch :]
        return batch

    def _hand_out(
        self, batch: Sequence[_PendingCall[CallT, ReplyT]], replies: Sequence[ReplyT | Exception]
    ) -> None:
        """Set the reply of each call, and make the first thread in the queue the next leader."""
        self._busy_until = monotonic() + RECENT_SECONDS if len(batch) > 1 else 0.0
        for pending, reply in zip(batch, replies, strict=False):
            pending.reply = reply
            pending.turn.set()
        with self._lock:
            self._has_leader = bool(self._queue)
            next_leader = self._queue[0] if self._queue else None
        if next_leader is not None:
            next_leader.turn.set()
