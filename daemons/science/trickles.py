"""Defines the interface of trickle handlers, and reads their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from daemons.science.worker_main import resolve
from scheduler.apps.rules.plugins import TRICKLE_HANDLER

_KNOWN = ("extend_deadline", "fraction_done", "reply")


class BadAnswer(ValueError):
    """The handlers or a handler's answer are not valid. Hint: see the error text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trickle:
    """A message of a running result, as it is passed to a handler.

    `text` is the unchanged text that the program sent.  `said_at` is the time of the host's clock.
    `id` never changes.  A handler that was killed before it returned is called again with the same
    `id`.
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
    """The effects that a handler requests.

    They apply only while the result that sent the trickle is in progress.
    """

    extend_deadline: timedelta = timedelta(0)
    fraction_done: float | None = None
    reply: str | None = None


class TrickleHandler(Protocol):
    """Processes trickles of one variety."""

    def __call__(self, trickle: Trickle, /) -> Mapping[str, Any] | None:
        """Process one trickle; return None, or a dict of fields of `Answer`."""


def check(handlers: object) -> None:
    """Check an app's handlers, which must map varieties to names in the allow-list.

    Raises `UnknownPlugin` for an unknown name, and `BadAnswer` if `handlers` has another form.
    """
    from django.conf import settings  # noqa: PLC0415 - the worker imports this module without Django

    if not isinstance(handlers, Mapping) or not all(
        isinstance(name, str) for name in handlers.values()
    ):
        raise BadAnswer('Handlers are not a JSON object. Hint: write {"variety": "name"} or {}.')
    for name in handlers.values():
        settings.PLUGINS.get(TRICKLE_HANDLER, name)


def message(trickle: Trickle) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(trickle).items()
    }


def run(target: str, folder: str, message: dict[str, Any]) -> Any:  # noqa: ANN401 - read() checks it
    """Call a handler in the worker; return its answer, with timedeltas as seconds."""
    moments = {
        name: datetime.fromisoformat(message[name])
        for name in ("said_at", "received_at", "report_deadline")
        if message[name] is not None
    }
    answer = resolve(target, folder)(Trickle(**{**message, **moments}))
    if not isinstance(answer, Mapping):
        return answer
    return {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in answer.items()
    }


def read(answer: object) -> Answer:
    """Return the effects that a handler's answer requests; raises `BadAnswer`.

    `extend_deadline` is a timedelta or a number of seconds, and is limited to 366 days.
    `fraction_done` is a number from 0 to 1.  `reply` is the text of a trickle to the host.
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
