"""Encodes and decodes `Defer` as JSON, for messages from a worker to its daemon."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from daemons.science.interfaces import Defer
from daemons.science.messages import BadMessage, a_number, a_text, an_object

#: The maximum delay, to which longer delays are reduced; seconds.
_MAX_SECONDS: Final = 366 * 86_400


def moment_message(until: object) -> dict[str, Any]:
    """Encode a timedelta, or a datetime with a time zone; raises TypeError for other values."""
    if isinstance(until, timedelta):
        return {"seconds": until.total_seconds()}
    if isinstance(until, datetime) and until.tzinfo is not None:
        return {"at": until.isoformat()}
    msg = f"Defer has {until!r:.60}. Hint: give a timedelta, or a datetime with a time zone."
    raise TypeError(msg)


def read_moment(value: object) -> datetime | timedelta:
    """Decode the output of `moment_message`; raises `BadMessage`.

    Datetimes are returned in UTC.  A timedelta is limited to the range from 0 to 366 days.
    """
    if isinstance(value, dict) and value.keys() == {"seconds"}:
        seconds = a_number(value["seconds"], "seconds")
        return timedelta(seconds=min(max(seconds, 0.0), _MAX_SECONDS))
    text = a_text(an_object(value, "A moment", ("at",))["at"], "a moment", 64)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadMessage(f"{text!r} is not a moment.") from error
    if moment.tzinfo is None:
        raise BadMessage(f"{text!r} has no time zone.")
    try:
        # PostgreSQL refuses some of the offsets that Python accepts.
        return moment.astimezone(UTC)
    except OverflowError:
        raise BadMessage(f"{text!r} is before year 1 or after year 9999.") from None


def defer_message(defer: Defer) -> dict[str, Any]:
    return {"defer": moment_message(defer.until), "reason": str(defer.reason)}


def read_defer(value: object) -> Defer:
    """Decode the output of `defer_message`; raises `BadMessage`."""
    answer = an_object(value, "A deferral", ("defer", "reason"))
    return Defer(read_moment(answer["defer"]), a_text(answer["reason"], "a reason"))
