"""Runs the passes of a daemon until the daemon is stopped.

After SIGINT or SIGTERM, the current pass finishes first.  After a full batch, the next pass follows
at once.  After a smaller batch, it follows after a short gap, so that the next batch is fuller.  An
idle daemon polls after 20 ms, then at doubled intervals up to the daemon's pause.  It also polls
when its *bell* receives a datagram, which a process sends after it created work for the daemon
(`wakes`).  A failure of the database is logged once and retried with growing back-off.
"""

from __future__ import annotations

import logging
import os
import signal
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Protocol
from weakref import finalize

from django.db import Error as DatabaseError
from django.db import connection

from daemons.tally import WHOLE, Shard, Tally
from daemons.vitals import Record, Vitals
from daemons.wakes import woken_by
from scheduler import wakeups
from scheduler.health import maintenance
from scheduler.sql import plans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from types import FrameType

log = logging.getLogger(__name__)

#: The first pause of an idle daemon; seconds.
FIRST_PAUSE = 0.02
#: The longest gap after a pass that changed rows and was not full: in seconds, and as a multiple of
#: the pass's duration.  Many small batches cost more than a few large ones.
MAX_GAP_SECONDS = 0.32
MAX_GAP_PER_PASS = 8.0
#: The first and the longest pause after a failed pass; seconds.
FIRST_BACK_OFF = 1.0
MAX_BACK_OFF = 60.0


class StopSign:
    """A stop flag that, unlike `threading.Event`, a signal handler may set at any moment.

    An Event deadlocks if a signal handler sets it while its own thread begins to wait for it.  This
    flag is a byte in a pipe, which a thread can wait for together with a bell.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        finalize(self, _close, self._reader, self._writer)

    def set(self) -> None:
        """Set the flag, which ends a `wait`."""
        self._is_set = True
        with suppress(BlockingIOError):
            os.write(self._writer, b"!")

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float, bell: wakeups.Bell | None = None) -> bool:
        """Wait at most `seconds` for the flag or the bell; return whether the flag is set."""
        if not self._is_set:
            wakeups.wait(seconds, self._reader, *([bell.fileno()] if bell else []))
        return self._is_set


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class Pass(Protocol):
    """The type of the function that runs one pass of a daemon.

    A pass claims its rows, so several passes of one daemon may run concurrently.
    """

    def __call__(self, *, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:
        """Process at most `limit` rows of the shard; return the counts of the changes."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """The definition of a daemon.

    `batch` is the number of rows per pass, `pause` is the longest pause in seconds, and `summary`
    is the help text of its command.
    """

    name: str
    run_pass: Pass
    batch: int
    pause: float
    summary: str


@dataclass(frozen=True, slots=True)
class Drive:
    """The clock, the stop sign and the command-line options with which a daemon runs.

    With `sleep_interval`, the daemon works in rounds of at least this many seconds: passes until a
    batch is not full, then a pause for the rest of the interval.  A bell does not end this pause.
    `record` stores the counts of passes.
    """

    clock: Callable[[], datetime]
    stop: StopSign
    limit: int
    pause: float
    shard: Shard = WHOLE
    sleep_interval: float | None = None
    record: Record | None = None

    def run_pass(self, daemon: Daemon) -> Tally:
        """Run one pass and return its tally; wake the daemons for which the pass created work."""
        plans.renew()
        tally = daemon.run_pass(now=self.clock(), limit=self.limit, shard=self.shard)
        if tally.changed:
            wakeups.ring(woken_by(daemon.name, tally))
        return tally


@dataclass(slots=True)
class Rhythm:
    """Computes the pauses between the passes of a daemon.

    Pauses begin at `FIRST_PAUSE` and double.  They grow to `MAX_GAP_SECONDS` while passes change
    rows, and to `longest` seconds while passes change nothing.
    """

    longest: float
    pause: float = FIRST_PAUSE
    gap: float = FIRST_PAUSE

    def after(self, tally: Tally, *, took: float) -> tuple[float, bool]:
        """Return the seconds to wait after a pass, and whether a bell may end the wait."""
        if tally.more:
            return 0.0, False
        if tally.changed:
            wait = min(self.gap, self.longest, max(FIRST_PAUSE, MAX_GAP_PER_PASS * took))
            self.pause, self.gap = FIRST_PAUSE, min(2 * self.gap, MAX_GAP_SECONDS)
            return wait, False
        wait = min(self.pause, self.longest)
        self.pause, self.gap = min(2 * self.pause, self.longest), FIRST_PAUSE
        return wait, True


def run(daemon: Daemon, drive: Drive) -> None:
    """Run passes until `drive.stop` is set.

    A failed pass is retried after a pause.  It is logged, but an outage of the database only once.
    """
    rhythm, back_off = Rhythm(drive.pause), FIRST_BACK_OFF
    round_began: float | None = None
    with (
        wakeups.Bell(daemon.name) as bell,
        Vitals(daemon.name, record=drive.record, bell=bell) as vitals,
    ):
        while not drive.stop.is_set():
            if _waits_for_maintenance(daemon, drive):
                continue
            # A wake-up after this point may be for rows that this pass misses, so it causes another
            # pass.
            bell.silence()
            began = monotonic()
            round_began = began if round_began is None else round_began
            vitals.begin_pass()
            tally = _try_pass(daemon, drive, quiet=back_off > FIRST_BACK_OFF)
            vitals.end_pass(tally)
            if tally is None:
                drive.stop.wait(back_off)
                back_off = min(2 * back_off, MAX_BACK_OFF)
                continue
            if back_off > FIRST_BACK_OFF:
                log.info("daemon_recovered", extra={"daemon": daemon.name})
            back_off = FIRST_BACK_OFF
            seconds, is_rung = rhythm.after(tally, took=monotonic() - began)
            if drive.sleep_interval is not None and not tally.more:
                took = monotonic() - round_began
                seconds, is_rung = remainder(drive.sleep_interval, took=took), False
                round_began = None
            if seconds:
                drive.stop.wait(seconds, bell if is_rung else None)


def remainder(interval: float, *, took: float) -> float:
    """Return the seconds that are left of a round after `took` seconds, at least 0.

    >>> remainder(1.5, took=1.0), remainder(1.5, took=2.0)
    (0.5, 0.0)
    """
    return max(0.0, interval - took)


def _waits_for_maintenance(daemon: Daemon, drive: Drive) -> bool:
    """Wait until maintenance ends; return whether it was active.  Logs the start and the end."""
    if not maintenance.stops_daemons():
        return False
    log.info("daemon_paused", extra={"daemon": daemon.name})
    while maintenance.stops_daemons() and not drive.stop.is_set():
        drive.stop.wait(drive.pause)
    if not drive.stop.is_set():
        log.info("daemon_resumed", extra={"daemon": daemon.name})
    return True


def drain(daemon: Daemon, drive: Drive) -> Tally:
    """Run passes until a batch is not full or `drive.stop` is set; return the total tally."""
    total: Tally | None = None
    with Vitals(daemon.name, record=drive.record) as vitals:
        while total is None or (total.more and not drive.stop.is_set()):
            vitals.begin_pass()
            try:
                tally = drive.run_pass(daemon)
            except Exception:
                vitals.end_pass(None)
                raise
            vitals.end_pass(tally)
            total = tally if total is None else total + tally
    return total


@contextmanager
def stopping_on_signals(stop: StopSign, write: Callable[[str], None]) -> Iterator[None]:
    """Set `stop` if SIGINT or SIGTERM arrives within the block.

    The first signal also writes ``finishing...``.
    """

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if not stop.is_set():
            write("finishing...")
        stop.set()

    before = {
        number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def _try_pass(daemon: Daemon, drive: Drive, *, quiet: bool) -> Tally | None:
    began = monotonic()
    try:
        tally = drive.run_pass(daemon)
    except DatabaseError as error:
        # Logged once when the outage begins: repetitions would add no information.
        if not quiet:
            reason = " ".join(str(error).split())
            log.error("database_failed", extra={"daemon": daemon.name, "reason": reason})  # noqa: TRY400 - one line
        connection.close()
        return None
    except Exception:
        # A bad row or plug-in must not end the daemon: later passes can process other rows.
        log.exception("pass_failed", extra={"daemon": daemon.name})
        connection.close()
        return None
    if tally.changed:
        seconds = round(monotonic() - began, 3)
        log.info(
            "pass_finished",
            extra={
                "daemon": daemon.name,
                "seen": tally.seen,
                "seconds": seconds,
                "did": tally.done,
            },
        )
    return tally
