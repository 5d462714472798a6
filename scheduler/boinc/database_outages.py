"""Detects an unreachable database, and logs when an outage begins and ends.

A stopped server refuses connections at once.  A frozen server, or a server behind a broken network
link, sends nothing, and a query to it blocks forever.  If a thread has waited for more than
`TIMEOUT_SECONDS`, the watchdog opens a new connection.  If that succeeds, the server is only slow,
and the threads keep waiting.  If it fails, the watchdog shuts down the connections of all waiting
threads, and further requests are refused at once until a new connection succeeds.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Final

import psycopg
from django.db import OperationalError, connection

log = logging.getLogger(__name__)

#: The time for which a thread waits before the database is probed, the interval between two checks
#: of the watchdog, and the connect timeout of a probe.
TIMEOUT_SECONDS, CHECK_SECONDS, CONNECT_TIMEOUT_SECONDS = 10.0, 2.0, 5
UNREACHABLE = "The database does not answer."


def probe_database() -> None:
    """Open a new connection to the database and close it; raises psycopg's errors."""
    params = {
        **connection.get_connection_params(),
        "connect_timeout": CONNECT_TIMEOUT_SECONDS,
    }
    psycopg.connect(**params).close()


class DatabaseWatchdog:
    """Detects an unreachable database, and ends the queries of threads that wait for it.

    `probe` raises `psycopg.Error` if the database is unreachable.
    """

    def __init__(self, probe: Callable[[], None] = probe_database) -> None:
        self._probe = probe
        self._lock = threading.Lock()
        #: The time when each watched block began, by the (duplicated) descriptor of the connection.
        self._watched: dict[int, float] = {}
        self._thread: threading.Thread | None = None
        self.is_unreachable = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch this thread's use of its connection.

        Raises `OperationalError` at once if the last probe failed.  If the database becomes
        unreachable inside the block, the connection is shut down, and the query in progress fails.
        """
        if self.is_unreachable:
            raise OperationalError(UNREACHABLE)
        connection.ensure_connection()
        # A duplicated descriptor stays valid if the connection is closed meanwhile: its number is
        # not reused, so no other connection is shut down by mistake.
        descriptor = os.dup(connection.connection.fileno())
        with self._lock:
            self._watched[descriptor] = monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._check_periodically, daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                del self._watched[descriptor]
            os.close(descriptor)

    def cause_of(self, error: Exception) -> Exception:
        """Return an `OperationalError` during an outage, or else `error`."""
        return OperationalError(UNREACHABLE) if self.is_unreachable else error

    def check(self) -> None:
        """Probe the database if a thread has waited for too long or the last probe failed."""
        if not self.is_unreachable and not self._is_overdue():
            return
        try:
            self._probe()
        except psycopg.Error:
            self.is_unreachable = True
            self._shut_down_connections()
        else:
            self.is_unreachable = False

    def _is_overdue(self) -> bool:
        with self._lock:
            return any(monotonic() - since > TIMEOUT_SECONDS for since in self._watched.values())

    def _shut_down_connections(self) -> None:
        """Shut down the connections of the watched threads, so that their queries fail."""
        with self._lock:
            for descriptor in self._watched:
                with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as duplicate:
                    duplicate.shutdown(socket.SHUT_RDWR)

    def _check_periodically(self) -> None:
        while True:
            threading.Event().wait(CHECK_SECONDS)
            self.check()


#: The watchdog of this process, shared by all threads.
database_watchdog: Final = DatabaseWatchdog()


class OutageLog:
    """Logs when the database becomes unreachable and when it recovers; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None

    def begin(self, error: Exception) -> None:
        """Log the start of an outage; further calls do nothing until `end` is called."""
        with self._lock:
            if self._since is not None:
                return
            self._since = monotonic()
        log.error("database_unreachable", extra={"error": " ".join(str(error).split())})

    def end(self) -> None:
        """Log the end and the duration of the current outage, if there is one."""
        if self._since is None:  # no lock is needed if there is no outage
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            log.info("database_recovered", extra={"seconds": round(monotonic() - since, 1)})


#: The outage log of this process, shared by all threads.
outage_log: Final = OutageLog()
