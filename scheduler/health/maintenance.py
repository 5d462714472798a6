"""Switches maintenance, which stops RPCs and uploads and pauses the daemons.

Theory of operation.  Maintenance is on while the file ``maintenance.json`` exists in the var
folder.  Web processes check the file before each RPC and upload, daemons before each pass.  A check
costs one `stat` and works while the database is down.  The messages for volunteers are BOINC's.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduler import storage

#: Messages for volunteers, as BOINC's server sends them.
DOWN = "Project is temporarily shut down for maintenance"
ENDED = "This project has ended and sends no more work. You may remove it from your client"

#: The maximum number of characters of the additional message for volunteers.
MAX_MESSAGE = 200

_NOTICE = "maintenance"
#: Delay of the next RPC if maintenance has no end time, and the limits of the delay if it has one.
_DEFAULT_DELAY = timedelta(hours=1)
_MIN_DELAY, _MAX_DELAY = timedelta(minutes=1), timedelta(days=1)


class BadMaintenance(ValueError):
    """The arguments for maintenance are invalid. Hint: see the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """The current maintenance: its effects, its start time and its expected end, if set.

    `scheduler` refuses scheduler RPCs and postpones uploads.  `daemons` pauses the daemons.
    `ended` means that the project has ended: reports are accepted, and no work is sent.
    """

    since: datetime
    until: datetime | None = None
    message: str = ""
    scheduler: bool = True
    daemons: bool = True
    ended: bool = False

    @property
    def sentence(self) -> str:
        """The standard sentence, without the operator's text and the full stop."""
        return ENDED if self.ended else DOWN

    @property
    def text(self) -> str:
        """The message for volunteers."""
        return with_message(self.sentence, self.message)

    def delay(self, now: datetime) -> float:
        """Return the seconds until a client may contact the server again."""
        if self.until is None:
            return _DEFAULT_DELAY.total_seconds()
        return min(max(self.until - now, _MIN_DELAY), _MAX_DELAY).total_seconds()


def with_message(sentence: str, message: str) -> str:
    """Return a sentence with the operator's text, if any, without the full stop.

    >>> with_message("It is down", "New disks.")
    'It is down. New disks'
    """
    return f"{sentence}. {message.rstrip(' .')}" if message else sentence


def current() -> Maintenance | None:
    """Return the current maintenance, or None; costs one `stat` while maintenance is off."""
    notice = storage.notice(_NOTICE)
    if notice is None:
        return None
    return Maintenance(
        since=_moment(notice.get("since")) or _LONG_AGO,
        until=_moment(notice.get("until")),
        message=str(notice.get("message") or ""),
        scheduler=bool(notice.get("scheduler", True)),
        daemons=bool(notice.get("daemons", True)),
        ended=bool(notice.get("ended", False)),
    )


def stops_scheduler() -> Maintenance | None:
    """Return the current maintenance if it refuses scheduler RPCs, else None."""
    maintenance = current()
    return maintenance if maintenance and maintenance.scheduler else None


def stops_daemons() -> bool:
    """Return whether maintenance pauses the daemons."""
    maintenance = current()
    return maintenance is not None and maintenance.daemons


def begin(
    *,
    message: str = "",
    until: datetime | None = None,
    scheduler: bool = True,
    daemons: bool = True,
    now: datetime,
) -> Maintenance:
    """Switch maintenance on, or replace it; raise `BadMaintenance` for invalid arguments.

    Maintenance does not end automatically at `until`: call `end`.
    """
    if until is not None and until <= now:
        msg = f"The end ({until:%Y-%m-%d %H:%M} UTC) is past. Hint: give a later end, or none."
        raise BadMaintenance(msg)
    if not (scheduler or daemons):
        msg = "Nothing would be stopped. Hint: stop the scheduler, the daemons or both."
        raise BadMaintenance(msg)
    return _write(
        Maintenance(
            since=now,
            until=until,
            message=message[:MAX_MESSAGE],
            scheduler=scheduler,
            daemons=daemons,
        )
    )


def end_project(*, message: str = "", now: datetime) -> Maintenance:
    """Mark the project as ended: reports are still accepted, but no work is sent."""
    return _write(
        Maintenance(
            since=now, message=message[:MAX_MESSAGE], scheduler=False, daemons=False, ended=True
        )
    )


def end() -> Maintenance | None:
    """Switch maintenance off; return the maintenance that was on, or None."""
    maintenance = current()
    storage.put_notice(_NOTICE, None)
    return maintenance


def _write(maintenance: Maintenance) -> Maintenance:
    storage.put_notice(
        _NOTICE,
        {
            "since": maintenance.since.isoformat(),
            "until": maintenance.until.isoformat() if maintenance.until else None,
            "message": maintenance.message,
            "scheduler": maintenance.scheduler,
            "uploads": maintenance.scheduler,
            "daemons": maintenance.daemons,
            "ended": maintenance.ended,
        },
    )
    return maintenance


_LONG_AGO = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def _moment(text: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment if moment.tzinfo else None
