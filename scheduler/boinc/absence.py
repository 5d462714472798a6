"""The outage log: one line when the database fails, one when it is back."""

from __future__ import annotations

import logging
import threading
from time import monotonic
from typing import Final

log = logging.getLogger(__name__)


class OutageLog:
    """Logs when the database becomes unreachable and when it recovers; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None

    def begin(self, error: Exception) -> None:
        """Note that the database did not answer; logged only for the first failure of an outage."""
        with self._lock:
            if self._since is not None:
                return
            self._since = monotonic()
        log.error("database_unreachable", extra={"error": " ".join(str(error).split())})

    def end(self) -> None:
        """Note that the database answered; logged with the outage's length if there was one."""
        if self._since is None:  # nearly always: no lock is taken
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            log.info("database_recovered", extra={"seconds": round(monotonic() - since, 1)})


#: Every thread of a process reports to the same log.
outage_log: Final = OutageLog()
