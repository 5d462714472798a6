"""Provides the clock of the timeout checker, which detects clock changes.

The system clock is compared with the monotonic clock.  If the system clock was set forward, the
difference is recorded as an outage, because hosts could not compute in the skipped time.  If it was
set back, due workunits would not be processed until the clock reaches the old time again, so they
are made due at the new time.
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

#: The name of the daemon that detects changes of the clock.
WATCHER: Final = "timeout_checker"
#: A clock counts as set back if it is behind by more than this; smaller steps are corrections.
STEP_BACK: Final = timedelta(seconds=5)
#: The margin that is added to the old time: other processes may have scheduled work by the old
#: clock after this process last read the clock.
MARGIN: Final = timedelta(minutes=1)
#: A pass that began before the change uses the old time until it ends.  So workunits are made
#: due again after this many seconds, then at doubled intervals until the clock reaches the old
#: time.
WAKE_INTERVAL_SECONDS: Final = 2.0


@dataclass(slots=True)
class WatchedClock:
    """A clock that handles changes of the system clock before it returns the time.

    `read` returns the system time, and `seconds` the monotonic time.  A call may raise database
    errors.  Then the next call handles the change again.
    """

    read: Callable[[], datetime]
    seconds: Callable[[], float] = monotonic
    _before: tuple[datetime, float] | None = None
    _ahead: datetime | None = None
    _pause: float = WAKE_INTERVAL_SECONDS
    _look_at: float = 0.0

    def __call__(self) -> datetime:
        """Handle a change of the clock since the last call; return the current time."""
        now, second = self.read(), self.seconds()
        if self._before is not None:
            expected = self._before[0] + timedelta(seconds=second - self._before[1])
            if now - expected > settings.PROJECT.outage_after:
                set_forward(expected, now)
            elif expected - now > STEP_BACK:
                log.warning("clock_set_back", extra={"seconds": _seconds(expected - now)})
                self._ahead = max(expected + MARGIN, self._ahead or expected)
                self._pause, self._look_at = WAKE_INTERVAL_SECONDS, second
        if self._ahead is not None and second >= self._look_at:
            wake(self._ahead, now)
            self._pause, self._look_at = 2 * self._pause, second + self._pause
            self._ahead = self._ahead if self._ahead > now else None
        self._before = (now, second)
        return now


def set_forward(expected: datetime, now: datetime) -> None:
    """Record the skipped time as an outage, which extends deadlines before any timeout."""
    log.warning("clock_set_forward", extra={"seconds": _seconds(now - expected)})
    outages.add(expected, now, reason="the clock was set forward", is_detected=True, now=now)


def wake(ahead: datetime, now: datetime) -> int:
    """Make workunits due now whose due time is between `now` and `ahead`; return their number."""
    return sql.execute("wake_after_step_back", {"now": now, "was": ahead}, "daemons.sql")


def _seconds(span: timedelta) -> int:
    return round(span.total_seconds())


@cache
def clock_of(daemon: str) -> Callable[[], datetime]:
    """Return the clock of a daemon; repeated calls return the same object."""
    return WatchedClock(timezone.now) if daemon == WATCHER else timezone.now
