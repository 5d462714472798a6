"""Writes the texts of messages about alerts that began or ended [pure]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from scheduler.health.rules.alert_texts import duration

#: An alert is reported after this time.  Daemons that are just being started cause alerts for some
#: seconds, and a disk that is nearly full causes and ends alerts with each upload.
LASTS_FOR: Final = timedelta(minutes=2)
#: The maximum number of alerts that began, and of those that ended, in one message.
MAX_LISTED: Final = 20


@dataclass(frozen=True, slots=True)
class Reported:
    """An alert in a message; `began_at` is the time when it was first seen."""

    kind: str
    subject: str
    sentence: str
    hint: str
    began_at: datetime


def title(project: str, began: Sequence[Reported], ended: Sequence[Reported]) -> str:
    """Return the subject of a message.

    A single change is named by its sentence, several changes by their numbers.
    """
    if len(began) + len(ended) == 1:
        [alert] = (*began, *ended)
        return f"[{project}] {'' if began else 'Ended: '}{alert.sentence}"
    numbers = ((len(began), "began"), (len(ended), "ended"))
    changes = [f"{count} alert{'s' * (count != 1)} {verb}" for count, verb in numbers if count]
    return f"[{project}] {', '.join(changes)}"


def body(
    project: str,
    address: str,
    began: Sequence[Reported],
    ended: Sequence[Reported],
    *,
    now: datetime,
) -> str:
    """Return the text of a mail; `address` is the project's URL."""
    parts = [f"{project}, {address}, {_shown(now)}", ""]
    if began:
        parts += ["New alerts:", "", *_began(began[:MAX_LISTED]), *_more(began), ""]
    if ended:
        parts += ["Ended:", "", *_ended(ended[:MAX_LISTED], now), *_more(ended), ""]
    parts += [f"All current alerts: {address}admin/, or `manage.py alerts`.", ""]
    return "\n".join(parts)


def data(
    project: str,
    address: str,
    began: Sequence[Reported],
    ended: Sequence[Reported],
    *,
    now: datetime,
) -> dict[str, Any]:
    """Return the content of a webhook; chat servers show its member `text`."""
    return {
        "project": project,
        "address": address,
        "at": now.isoformat(),
        "text": body(project, address, began, ended, now=now),
        "began": [_fields(alert) for alert in began[:MAX_LISTED]],
        "ended": [_fields(alert) for alert in ended[:MAX_LISTED]],
    }


def _fields(alert: Reported) -> dict[str, Any]:
    return asdict(alert) | {"began_at": alert.began_at.isoformat()}


def _began(alerts: Sequence[Reported]) -> Iterator[str]:
    for alert in alerts:
        yield f"- {alert.sentence} (since {_shown(alert.began_at)})"
        if alert.hint:
            yield f"  Hint: {alert.hint}"


def _ended(alerts: Sequence[Reported], now: datetime) -> Iterator[str]:
    for alert in alerts:
        yield f"- {alert.sentence} (it lasted {duration(now - alert.began_at)})"


def _more(alerts: Sequence[Reported]) -> Iterator[str]:
    if (more := len(alerts) - MAX_LISTED) > 0:
        yield f"- and {more} more"


def _shown(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
