"""Maintenance: turns volunteers away and has the daemons wait.

Theory of operation.  The switch is a file of the var folder, ``maintenance.json``, that every web
process and daemon looks at before each RPC, upload and pass: one `stat`, and it works while the
database is down.  Source of the wording: BOINC's.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduler import storage

#: What volunteers read (BOINC's own words, known to its clients' users).
DOWN = "Project is temporarily shut down for maintenance"
ENDED = "This project has ended and sends no more work. You may remove it from your client"

_NOTICE = "maintenance"
#: When a client comes again if nobody said how long it takes, and the bounds if somebody did.
_DELAY = timedelta(hours=1)
_SHORTEST, _LONGEST = timedelta(minutes=1), timedelta(days=1)
_MAX_MESSAGE = 200


class BadMaintenance(ValueError):
    """Maintenance cannot be switched so. Hint: the message says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """What is shut, since when, and until when as far as somebody said.

    `scheduler` turns scheduler RPCs away and puts uploads off; `daemons` has them pause; `ended`
    says that the project is over: reports are taken, no work is sent.
    """

    since: datetime
    until: datetime | None = None
    message: str = ""
    scheduler: bool = True
    daemons: bool = True
    ended: bool = False

    @property
    def text(self) -> str:
        """The sentence for volunteers."""
        said = ENDED if self.ended else DOWN
        return f"{said}. {self.message.rstrip(' .')}" if self.message else said

    def delay(self, now: datetime) -> float:
        """In how many seconds a client shall ask again."""
        if self.until is None:
            return _DELAY.total_seconds()
        return min(max(self.until - now, _SHORTEST), _LONGEST).total_seconds()


def current() -> Maintenance | None:
    """The maintenance that is on, None if none is; one `stat`, cheap enough for every RPC."""
    said = storage.notice(_NOTICE)
    if said is None:
        return None
    return Maintenance(
        since=_moment(said.get("since")) or _LONG_AGO,
        until=_moment(said.get("until")),
        message=str(said.get("message") or ""),
        scheduler=bool(said.get("scheduler", True)),
        daemons=bool(said.get("daemons", True)),
        ended=bool(said.get("ended", False)),
    )


def stops_scheduler() -> Maintenance | None:
    """The maintenance that turns scheduler RPCs away, if there is one."""
    found = current()
    return found if found and found.scheduler else None


def stops_daemons() -> bool:
    """Whether daemons shall wait before their next pass."""
    found = current()
    return found is not None and found.daemons


def begin(
    *,
    message: str = "",
    until: datetime | None = None,
    scheduler: bool = True,
    daemons: bool = True,
    now: datetime,
) -> Maintenance:
    """Switch maintenance on, or change it; it stays until `end`, whatever `until` says."""
    if until is not None and until <= now:
        msg = f"Its end ({until:%Y-%m-%d %H:%M} UTC) is past. Hint: give a later one, or none."
        raise BadMaintenance(msg)
    if not (scheduler or daemons):
        msg = "Nothing would be stopped. Hint: stop the scheduler, the daemons or both."
        raise BadMaintenance(msg)
    return _write(
        Maintenance(
            since=now,
            until=until,
            message=message[:_MAX_MESSAGE],
            scheduler=scheduler,
            daemons=daemons,
        )
    )


def end_project(*, message: str = "", now: datetime) -> Maintenance:
    """Say that the project is over: results are still reported, no more work is sent."""
    return _write(
        Maintenance(
            since=now, message=message[:_MAX_MESSAGE], scheduler=False, daemons=False, ended=True
        )
    )


def end() -> Maintenance | None:
    """Switch it off; returns what was on."""
    found = current()
    storage.put_notice(_NOTICE, None)
    return found


def _write(found: Maintenance) -> Maintenance:
    storage.put_notice(
        _NOTICE,
        {
            "since": found.since.isoformat(),
            "until": found.until.isoformat() if found.until else None,
            "message": found.message,
            "scheduler": found.scheduler,
            "uploads": found.scheduler,
            "daemons": found.daemons,
            "ended": found.ended,
        },
    )
    return found


_LONG_AGO = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def _moment(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo else None
