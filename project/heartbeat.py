"""Has a web process say that it is alive, so that outages are noticed."""

from __future__ import annotations

import logging
import threading
from typing import Final

from django.db import connection
from django.utils import timezone

from scheduler.results import outages

log = logging.getLogger(__name__)

#: Seconds between two signs of life.
EVERY: Final = 30.0


def start(every: float = EVERY) -> threading.Event:
    """Beat in a thread that ends with the process, or once the event returned is set."""
    stop = threading.Event()
    thread = threading.Thread(target=_beat_until, args=(stop, every), name="heartbeat", daemon=True)
    thread.start()
    return stop


def _beat_until(stop: threading.Event, every: float) -> None:
    was_well = True
    while True:
        is_well = beat_once(say=was_well)
        was_well = is_well
        if stop.wait(every):
            return


def beat_once(*, say: bool = True) -> bool:
    """Give one sign of life and return the connection; whether it could be written.

    Without a database there is no service either: this is how its silences are noticed, too.
    """
    try:
        outages.beat(now=timezone.now())  # noqa: TID251 - this is where it is read
    except Exception as error:  # noqa: BLE001 - whatever it is, the next beat may do better
        if say:
            log.warning("no heartbeat", extra={"reason": str(error).strip().partition("\n")[0]})
        return False
    finally:
        connection.close()
    return True
