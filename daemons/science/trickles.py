"""The shapes of an app's own handlers of trickles, and how answers are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

_KNOWN = ("extend_deadline", "fraction_done", "reply")


class BadAnswer(ValueError):
    """A handler returned what is no answer. Hint: the message says what is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trickle:
    """One message of a running result, as its handler is given it.

    `text` is what the program wrote, raw; `said_at` is by the host's clock.  `id` never changes:
    a handler that was killed after its work is called again with the same.
    """

    id: int
    app: str
    result_name: str
    workunit_name: str
    host_id: int
    variety: str
    text: str
    said_at: datetime
    received_at: datetime
    report_deadline: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What shall come of a trickle, all of it while its result is in progress."""

    extend_deadline: timedelta = timedelta(0)
    fraction_done: float | None = None
    reply: str | None = None


class TrickleHandler(Protocol):
    """Does with a trickle what the scientist wants."""

    def __call__(self, trickle: Trickle, /) -> Mapping[str, Any] | None:
        """Take it over; None, or a dict of `extend_deadline`, `fraction_done`, `reply`."""


def read(answer: object) -> Answer:
    """Read what a handler returned; raises `BadAnswer`.

    `extend_deadline` is a timedelta or seconds, `fraction_done` a number from 0 to 1, `reply` the
    text of a trickle down.
    """
    if answer is None:
        return Answer()
    if not isinstance(answer, Mapping) or not set(answer) <= set(_KNOWN):
        msg = f"A trickle handler returned {answer!r:.200}. "
        raise BadAnswer(msg + f"Hint: return None or a dict of {', '.join(_KNOWN)}.")
    return Answer(
        extend_deadline=_duration(answer.get("extend_deadline")),
        fraction_done=_fraction(answer.get("fraction_done")),
        reply=_text(answer.get("reply")),
    )


def _duration(value: object) -> timedelta:
    if value is None:
        return timedelta(0)
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        msg = f"extend_deadline is {value!r:.60}. Hint: give a timedelta or seconds, 0 or more."
        raise BadAnswer(msg)
    return timedelta(seconds=min(seconds, 366 * 86400))


def _fraction(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        msg = f"fraction_done is {value!r:.60}. Hint: give a number from 0 to 1."
        raise BadAnswer(msg)
    return float(value)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    msg = f"reply is {value!r:.60}. Hint: give text."
    raise BadAnswer(msg)
