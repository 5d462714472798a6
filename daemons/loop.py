"""The one loop that drives every daemon: pass after pass, until told to stop.

A signal lets the pass finish.  After a full batch the next pass follows at once; after one that did
less, in a moment, for the next batch to be fuller.  An idle daemon looks again after 20 ms, then
after twice that, up to the daemon's pause, and as soon as its bell rings: whoever makes work for it
rings (`wakes`).  What the database or the network breaks is said once and tried again, with a
growing pause.
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

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection

from daemons.tally import WHOLE, Shard, Tally
from daemons.wakes import woken_by
from scheduler import wakeups
from scheduler.operations import maintenance
from scheduler.sql import plans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from types import FrameType

log = logging.getLogger(__name__)

#: The first pause of an idle daemon, and of one whose database is away; seconds.
FIRST_PAUSE = 0.02
#: The longest pause after a pass that did something and was not full, and how often longer than
#: the pass itself it may be: many small batches cost more than a few large ones.
LONGEST_GAP = 0.32
GAP_PER_PASS = 8.0
FIRST_BACK_OFF = 1.0
LONGEST_BACK_OFF = 60.0
#: How often at most the sign of life is renewed; seconds.
SIGN_OF_LIFE_EVERY = 5.0


class StopSign:
    """Says when to stop; unlike `threading.Event` it may be set by a signal handler at any moment.

    An Event that is set while its own thread is about to wait for it waits for itself for ever; a
    byte in a pipe does not, and can be waited for together with a bell.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._hearing, self._saying = os.pipe()
        os.set_blocking(self._saying, False)
        finalize(self, _close, self._hearing, self._saying)

    def set(self) -> None:
        """Stop, and end the waiting."""
        self._is_set = True
        with suppress(BlockingIOError):
            os.write(self._saying, b"!")

    def is_set(self) -> bool:
        """Whether to stop."""
        return self._is_set

    def wait(self, seconds: float, bell: wakeups.Bell | None = None) -> bool:
        """Wait so long, or until it is set or the bell rings; whether to stop."""
        if not self._is_set:
            wakeups.wait(seconds, self._hearing, *([bell.fileno()] if bell else []))
        return self._is_set


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class Pass(Protocol):
    """One pass of a daemon; claims what it works on, so that any number may run at once."""

    def __call__(self, *, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:
        """Do at most `limit` rows' worth of work and say what was done."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """A pass and its habits: rows per batch, the longest pause in seconds, and what it is for."""

    name: str
    run_pass: Pass
    batch: int
    pause: float
    summary: str


@dataclass(frozen=True, slots=True)
class Drive:
    """How a daemon is driven: the clock, the stop sign, and the command line's wishes."""

    clock: Callable[[], datetime]
    stop: StopSign
    limit: int
    pause: float
    shard: Shard = WHOLE

    def run_pass(self, daemon: Daemon) -> Tally:
        """Make one pass, and wake those to whom it gave work."""
        plans.renew()
        tally = daemon.run_pass(now=self.clock(), limit=self.limit, shard=self.shard)
        if tally.changed:
            wakeups.ring(woken_by(daemon.name, tally))
        return tally


@dataclass(slots=True)
class Rhythm:
    """How long to wait after a pass: little when there is work, ever longer when there is none."""

    longest: float
    pause: float = FIRST_PAUSE
    gap: float = FIRST_PAUSE

    def after(self, tally: Tally, *, took: float) -> tuple[float, bool]:
        """Seconds to wait after a pass that took so many, and whether a bell ends the waiting."""
        if tally.more:
            return 0.0, False
        if tally.changed:
            wait = min(self.gap, self.longest, max(FIRST_PAUSE, GAP_PER_PASS * took))
            self.pause, self.gap = FIRST_PAUSE, min(2 * self.gap, LONGEST_GAP)
            return wait, False
        wait = min(self.pause, self.longest)
        self.pause, self.gap = min(2 * self.pause, self.longest), FIRST_PAUSE
        return wait, True


def run(daemon: Daemon, drive: Drive) -> None:
    """Make passes until `drive.stop` is set; never raises for what may heal."""
    rhythm, back_off = Rhythm(drive.pause), FIRST_BACK_OFF
    alive = _SignOfLife(daemon.name)
    with wakeups.Bell(daemon.name) as bell:
        while not drive.stop.is_set():
            if _waits_for_maintenance(daemon, drive):
                continue
            # What rings from now on may be overlooked by this pass, and makes another one.
            bell.silence()
            began = monotonic()
            tally = _try_pass(daemon, drive, quiet=back_off > FIRST_BACK_OFF)
            if tally is None:
                drive.stop.wait(back_off)
                back_off = min(2 * back_off, LONGEST_BACK_OFF)
                continue
            if back_off > FIRST_BACK_OFF:
                log.info("daemon recovered", extra={"daemon": daemon.name})
            back_off = FIRST_BACK_OFF
            alive.show(bell)
            seconds, is_rung = rhythm.after(tally, took=monotonic() - began)
            if seconds:
                drive.stop.wait(seconds, bell if is_rung else None)


def _waits_for_maintenance(daemon: Daemon, drive: Drive) -> bool:
    """Wait while maintenance stops the daemons; said once when it begins and once at its end."""
    if not maintenance.stops_daemons():
        return False
    log.info("daemon paused", extra={"daemon": daemon.name})
    while maintenance.stops_daemons() and not drive.stop.is_set():
        drive.stop.wait(drive.pause)
    if not drive.stop.is_set():
        log.info("daemon resumed", extra={"daemon": daemon.name})
    return True


def drain(daemon: Daemon, drive: Drive) -> Tally:
    """Make passes until one comes back short; the sum of what they did, and a sign of life."""
    total = drive.run_pass(daemon)
    while total.more and not drive.stop.is_set():
        total += drive.run_pass(daemon)
    _SignOfLife(daemon.name).show()
    return total


@contextmanager
def stopping_on_signals(stop: StopSign, say: Callable[[str], None]) -> Iterator[None]:
    """SIGINT and SIGTERM set `stop` and say that the pass is finished first."""

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if not stop.is_set():
            say("finishing...")
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
        # One line when it begins; the same trouble every few seconds says nothing new.
        if not quiet:
            reason = " ".join(str(error).split())
            log.error("database failed", extra={"daemon": daemon.name, "reason": reason})  # noqa: TRY400 - one line
        connection.close()
        return None
    except Exception:
        # A daemon outlives a bad row or plug-in: others may do the work that it cannot.
        log.exception("pass failed", extra={"daemon": daemon.name})
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


class _SignOfLife:
    """A file whose age says when the daemon last finished a pass."""

    def __init__(self, name: str) -> None:
        self._path = settings.VAR_DIR / "run" / f"{name}.alive"
        self._shown_at = 0.0

    def show(self, bell: wakeups.Bell | None = None) -> None:
        """Renew the file, now and then, and the bell's with it."""
        if self._shown_at and monotonic() - self._shown_at < SIGN_OF_LIFE_EVERY:
            return
        self._shown_at = monotonic()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch()
            if bell:
                bell.show()
        except OSError as error:
            log.warning("no sign of life", extra={"path": str(self._path), "reason": str(error)})
