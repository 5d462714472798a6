"""Celery as the other driver of the same passes."""

from __future__ import annotations

import logging
from time import monotonic

from celery import shared_task
from django.db import Error as DatabaseError
from django.db import connection

from daemons.clock import clock_of
from daemons.loop import Daemon, Drive, StopSign, drain
from daemons.registry import find
from scheduler.health import maintenance

log = logging.getLogger(__name__)

#: A task ends after so many seconds, with the pass in hand; the next message goes on.  So a worker
#: that is told to stop need not be waited for, and no daemon keeps it from the others.
LONGEST = 30.0

#: Daemons whose trouble this process has told of.
_troubled: set[str] = set()


class _Enough(StopSign):
    """Set once a task has lasted long enough."""

    def __init__(self) -> None:
        super().__init__()
        self._until = monotonic() + LONGEST

    def is_set(self) -> bool:
        return super().is_set() or monotonic() > self._until


@shared_task(name="daemons.run_pass", ignore_result=True)
def run_pass(daemon: str) -> str:
    """Make passes of one daemon until one comes back short; a lost message costs nothing."""
    found = find(daemon)
    if maintenance.stops_daemons():
        return f"{found.name}: paused for maintenance"
    drive = Drive(clock_of(found.name), stop=_Enough(), limit=found.batch, pause=found.pause)
    try:
        did = drain(found, drive)
    except Exception as error:  # noqa: BLE001 - a bad row or plug-in: others may do the rest
        connection.close()
        return _tell(found, error)
    if found.name in _troubled:
        _troubled.discard(found.name)
        log.info("daemon recovered", extra={"daemon": found.name})
    return f"{found.name}: {did.sentence()}"


def _tell(daemon: Daemon, error: Exception) -> str:
    """Log a failure, once for each trouble of this process, and say it in a sentence."""
    reason = " ".join(str(error).split())
    if daemon.name not in _troubled:
        _troubled.add(daemon.name)
        if isinstance(error, DatabaseError):
            log.error("database failed", extra={"daemon": daemon.name, "reason": reason})
        else:
            log.error("pass failed", extra={"daemon": daemon.name}, exc_info=error)
    return f"{daemon.name}: failed: {reason}"
