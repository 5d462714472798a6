"""Sends the heartbeat of a daemon, and counts its passes.

A thread touches the daemon's alive file while the daemon works or waits for work, so the age of the
file does not depend on the length of a pass.  The thread does not touch the file if the last pass
failed, or if the current pass has taken so long that it probably hangs.  It ends when the `with`
statement of `Vitals` does, or with the process.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Protocol, Self

from django.db import Error as DatabaseError
from django.utils import timezone

from scheduler import storage, wakeups
from scheduler.health.facts import PassCounts

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType

    from daemons.tally import Tally

log = logging.getLogger(__name__)

#: The interval between two updates of the alive file; seconds.
ALIVE_INTERVAL_SECONDS = 5.0
#: A pass that takes longer than this counts as hanging.  Science code has time limits of its own,
#: and the longest chores of the housekeeper take minutes.
MAX_PASS_SECONDS = 600.0
#: The minimum interval between two writes of the counts of passes; the counts of the last seconds
#: are lost if the process is killed.
WRITE_INTERVAL_SECONDS = 15.0


class Record(Protocol):
    """The type of the function that adds counts of passes to those in the database."""

    def __call__(self, daemon: str, counts: PassCounts, *, now: datetime) -> None: ...


class Vitals:
    """The heartbeat and the counts of passes of one daemon, in a `with` statement.

    Without `record`, the counts are not stored.
    """

    def __init__(
        self, daemon: str, *, record: Record | None = None, bell: wakeups.Bell | None = None
    ) -> None:
        self._daemon = daemon
        self._record = record
        self._bell = bell
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_well = False
        self._pass_began: float | None = None
        self._counts = PassCounts()
        self._written_at = float("-inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.write()

    def begin_pass(self) -> None:
        self._pass_began = monotonic()

    def end_pass(self, tally: Tally | None) -> None:
        """Count a pass, or a failed pass if `tally` is None; write the counts if it is time."""
        began, self._pass_began = self._pass_began, None
        now = monotonic()
        self._counts.busy_seconds += now - (now if began is None else began)
        if tally is None:
            self._counts.failed_passes += 1
        else:
            self._counts.passes += 1
            self._counts.examined_rows += tally.seen
            self._show_life()
        self._is_well = tally is not None
        if now - self._written_at >= WRITE_INTERVAL_SECONDS:
            self.write()

    def write(self) -> None:
        """Add the counts to those in the database; keep them if the database is unavailable."""
        if self._record is None or self._counts == PassCounts():
            return
        self._written_at = monotonic()
        with suppress(DatabaseError):  # the loop logs outages of the database
            self._record(self._daemon, self._counts, now=timezone.now())
            self._counts = PassCounts()

    def _show_life(self) -> None:
        """Touch the alive file; the first time, start the thread that repeats this."""
        if self._thread is None:
            self._touch()
            thread = threading.Thread(target=self._touch_periodically, daemon=True)
            thread.start()
            self._thread = thread
        elif not self._is_well:
            self._touch()

    def _touch_periodically(self) -> None:
        while not self._stop.wait(ALIVE_INTERVAL_SECONDS):
            began = self._pass_began
            hangs = began is not None and monotonic() - began > MAX_PASS_SECONDS
            if self._is_well and not hangs:
                self._touch()

    def _touch(self) -> None:
        try:
            storage.show_life(self._daemon)
            if self._bell:
                self._bell.show()
        except OSError as error:
            log.warning(
                "alive_file_not_written", extra={"daemon": self._daemon, "reason": str(error)}
            )
