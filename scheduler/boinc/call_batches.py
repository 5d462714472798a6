"""Has the calls that arrive at the same time answered together.

Whoever comes while nobody leads, leads: he takes all who wait, has them answered, hands each his
reply, and passes the lead on to the first of those who came meanwhile.  So one who comes alone
waits for nobody, and the more come, the more share the cost of one answer.  Only where calls come
one upon the other, a leader waits for a moment, so that still more share it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from time import monotonic, sleep
from typing import Generic, TypeVar

#: For so long, in seconds, a leader lets others join, if several came together so recently: then
#: calls come one upon the other, and the answer to more of them costs each less.
GATHER, RECENT = 0.003, 0.05

CallT = TypeVar("CallT")
ReplyT = TypeVar("ReplyT")


class TooManyWait(Exception):
    """More calls wait than may. Hint: tell the caller to come again, each at another moment."""


class _Seat(Generic[CallT, ReplyT]):
    """One who waits: his call, and his turn, to lead or to take his reply."""

    __slots__ = ("call", "reply", "turn")

    def __init__(self, call: CallT) -> None:
        self.call = call
        self.turn = threading.Event()
        self.reply: ReplyT | Exception | None = None


class Batches(Generic[CallT, ReplyT]):
    """Gathers calls of many threads for a function that answers many at once.

    `answer_all` returns for each call its reply, or the exception that its caller gets; at most
    `most` are handed to it together, and at most `most_waiting` wait for their turn.
    """

    def __init__(
        self,
        answer_all: Callable[[Sequence[CallT]], Sequence[ReplyT | Exception]],
        *,
        most: int,
    ) -> None:
        self._answer_all = answer_all
        self._most = most
        self._lock = threading.Lock()
        self._waiting: list[_Seat[CallT, ReplyT]] = []
        self._is_led = False
        self._busy_until = 0.0

    @property
    def is_crowded(self) -> bool:
        """Whether more wait than will be answered next."""
        return len(self._waiting) > self._most

    def answer(self, call: CallT, *, most_waiting: int) -> ReplyT:
        """Have a call answered, with others or alone; raises `TooManyWait`, or what went wrong."""
        seat: _Seat[CallT, ReplyT] = _Seat(call)
        with self._lock:
            if len(self._waiting) >= most_waiting:
                raise TooManyWait
            self._waiting.append(seat)
            leads, self._is_led = not self._is_led, True
        if not leads:
            seat.turn.wait()
        if seat.reply is None:
            self._lead()
        if isinstance(seat.reply, Exception):
            raise seat.reply
        assert seat.reply is not None
        return seat.reply

    def _lead(self) -> None:
        """Answer those who wait, oneself first among them, and pass the lead on."""
        if monotonic() < self._busy_until:
            sleep(GATHER)
        with self._lock:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        error: Exception = RuntimeError("The batch was not answered.")
        replies: Sequence[ReplyT | Exception] = ()
        try:
            replies = self._answer_all([seat.call for seat in batch])
        except Exception as raised:  # noqa: BLE001  each caller gets it
            error = raised
        finally:
            self._busy_until = monotonic() + RECENT if len(batch) > 1 else 0.0
            for number, seat in enumerate(batch):
                seat.reply = replies[number] if number < len(replies) else error
                seat.turn.set()
            with self._lock:
                self._is_led = bool(self._waiting)
                following = self._waiting[0] if self._waiting else None
            if following is not None:
                following.turn.set()
