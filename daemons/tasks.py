"""Defines Celery tasks that run the daemons' passes, instead of `daemons.loop`."""

from __future__ import annotations

import logging
from time import monotonic

from celery import shared_task
from django.db import Error as DatabaseError
from django.db import connection

from daemons.clock import clock_of
from daemons.loop import Daemon, Drive, StopSign, drain
from daemons.registry import find
from scheduler.health import daemon_activity, installation, maintenance

log = logging.getLogger(__name__)

#: A task starts no further pass after this many seconds; the next message continues the work.  This
#: limits how long a worker takes to stop, and how long other daemons wait for it: a daemon that
#: sends no heartbeat for 40 seconds counts as silent.
MAX_TASK_SECONDS = 10.0

#: Names of daemons whose current failure this process has logged.
_failing: set[str] = set()


class _TaskLimit(StopSign):
    """A stop sign that is set after `MAX_TASK_SECONDS`."""

    def __init__(self) -> None:
        super().__init__()
        self._until = monotonic() + MAX_TASK_SECONDS

    def is_set(self) -> bool:
        return super().is_set() or monotonic() > self._until


@shared_task(name="daemons.run_pass", ignore_result=True)
def run_pass(daemon: str) -> str:
    """Run passes of one daemon until a batch is not full; return the counts as a sentence.

    A lost message is harmless, because the next message does the work.
    """
    entry = find(daemon)
    if maintenance.stops_daemons():
        return f"{entry.name}: paused for maintenance"
    drive = Drive(
        clock_of(entry.name),
        stop=_TaskLimit(),
        limit=entry.batch,
        pause=entry.pause,
        record=daemon_activity.add_passes,
    )
    try:
        # A worker may have started before the restore.
        installation.refuse_incomplete_restore()
        tally = drain(entry, drive)
    except Exception as error:  # noqa: BLE001 - a bad row must not stop the other daemons
        connection.close()
        return _log_failure(entry, error)
    if entry.name in _failing:
        _failing.discard(entry.name)
        log.info("daemon_recovered", extra={"daemon": entry.name})
    return f"{entry.name}: {tally.sentence()}"


def _log_failure(daemon: Daemon, error: Exception) -> str:
    """Return a failure as a sentence, and log it if the previous pass succeeded."""
    reason = " ".join(str(error).split())
    if daemon.name not in _failing:
        _failing.add(daemon.name)
        if isinstance(error, DatabaseError):
            log.error("database_failed", extra={"daemon": daemon.name, "reason": reason})
        else:
            log.error("pass_failed", extra={"daemon": daemon.name}, exc_info=error)
    return f"{daemon.name}: failed: {reason}"
