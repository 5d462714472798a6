"""Sends the heartbeats of a web process, from which outages are detected."""

from __future__ import annotations

import logging
import threading
from typing import Final

from django.db import connection
from django.utils import timezone

from scheduler.results import outages

log = logging.getLogger(__name__)

#: The time between two heartbeats.
INTERVAL_SECONDS: Final = 30.0


def start(every: float = INTERVAL_SECONDS) -> threading.Event:
    """Send a heartbeat every `every` seconds, from a thread.

    The thread ends when the returned event is set, or with the process.
    """
    stop = threading.Event()
    thread = threading.Thread(target=_beat_until, args=(stop, every), name="heartbeat", daemon=True)
    thread.start()
    return stop


def _beat_until(stop: threading.Event, every: float) -> None:
    was_well = True
    while True:
        was_well = beat_once(log_failure=was_well)
        if stop.wait(every):
            return


def beat_once(*, log_failure: bool = True) -> bool:
    """Write one heartbeat to the database; return whether it was written.

    Releases the database connection.  During an outage of the database no heartbeat is written, so
    such outages are detected, too.
    """
    try:
        outages.beat(now=timezone.now())  # noqa: TID251 - the clock is read here
    except Exception as error:  # noqa: BLE001 - the next heartbeat may succeed
        if log_failure:
            log.warning("heartbeat_failed", extra={"reason": str(error).strip().partition("\n")[0]})
        return False
    finally:
        connection.close()
    return True
