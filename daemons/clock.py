"""The clock of a daemon that gives up on what is late: it notices when it is set.

Seconds that nobody can set are counted beside it.  A clock that is set forward is an outage: nobody
had the time that it shows to have passed.  One that is set back would have all that is due wait
until it has caught up: that is woken anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from time import monotonic
from typing import Final

from django.conf import settings
from django.utils import timezone

from scheduler import sql
from scheduler.results import outages

log = logging.getLogger(__name__)

#: The daemon that watches the clock for all of them.
WATCHER: Final = "timeout_checker"
#: A clock that is earlier by so much than it should be has been set back; others are adjusted.
STEP_BACK: Final = timedelta(seconds=5)
#: What others did by the later clock after we read it last.
SINCE: Final = timedelta(minutes=1)
#: A pass that began before goes by the later clock until it ends: we look again after so many
#: seconds, then after twice that, until the clock has caught up.
LOOK_AGAIN: Final = 2.0


@dataclass(slots=True)
class WatchedClock:
    """Reads a clock, and acts before it says the time if that has been set.

    `seconds` counts real time.  May raise what the database does, and then acts the next time.
    """

    read: Callable[[], datetime]
    seconds: Callable[[], float] = monotonic
    _before: tuple[datetime, float] | None = None
    _ahead: datetime | None = None
    _pause: float = LOOK_AGAIN
    _look_at: float = 0.0

    def __call__(self) -> datetime:
        """The time, once all that is due knows it."""
        now, second = self.read(), self.seconds()
        if self._before is not None:
            expected = self._before[0] + timedelta(seconds=second - self._before[1])
            if now - expected > settings.PROJECT.outage_after:
                set_forward(expected, now)
            elif expected - now > STEP_BACK:
                log.warning("clock set back", extra={"seconds": _seconds(expected - now)})
                self._ahead = max(expected + SINCE, self._ahead or expected)
                self._pause, self._look_at = LOOK_AGAIN, second
        if self._ahead is not None and second >= self._look_at:
            wake(self._ahead, now)
            self._pause, self._look_at = 2 * self._pause, second + self._pause
            self._ahead = self._ahead if self._ahead > now else None
        self._before = (now, second)
        return now


def set_forward(expected: datetime, now: datetime) -> None:
    """Have deadlines moved by what the clock jumped over, before anything is given up."""
    log.warning("clock set forward", extra={"seconds": _seconds(now - expected)})
    outages.add(expected, now, reason="the clock was set forward", now=now)


def wake(ahead: datetime, now: datetime) -> int:
    """Wake at once what was due by a clock that was ahead; how many."""
    return sql.execute("wake_after_step_back", {"now": now, "was": ahead}, "daemons.sql")


def _seconds(span: timedelta) -> int:
    return round(span.total_seconds())


@cache
def clock_of(daemon: str) -> Callable[[], datetime]:
    """The clock of a daemon, the same for all its passes in this process."""
    return WatchedClock(timezone.now) if daemon == WATCHER else timezone.now
