"""Says once that the database is away, and once that it is back."""

from __future__ import annotations

import logging
import threading
from time import monotonic
from typing import Final

log = logging.getLogger(__name__)


class Absence:
    """What this process last saw of the database; any number of threads may tell."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None

    def begins(self, error: Exception) -> None:
        """Note that the database did not answer; said if it did so until now."""
        with self._lock:
            if self._since is not None:
                return
            self._since = monotonic()
        log.error("database_away", extra={"error": " ".join(str(error).split())})

    def ends(self) -> None:
        """Note that the database answered; said if it did not until now."""
        if self._since is None:  # as nearly always: no lock is taken
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            log.info("database back", extra={"seconds": round(monotonic() - since, 1)})


#: Of the one database that a process has.
of_the_database: Final = Absence()
