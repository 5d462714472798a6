"""Notices a database that does not answer at all, so that nobody waits for it.

A server that is stopped refuses at once; one that is frozen, or behind a line that is cut, says
nothing, and who has asked it waits for ever.  Who waits for long has it tried by another, new
connection: a server that answers there is only slow.  If it does not, those who wait are told that
their connections are broken, and whoever comes next is refused at once until it answers again.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Final

import psycopg
from django.db import OperationalError, connection

#: How long somebody waits before the database is tried, how often somebody looks, and how soon a
#: new connection must be there; seconds.
LONGEST, EVERY, ANSWERS_WITHIN = 10.0, 2.0, 5
SILENT = "The database does not answer."


def try_anew() -> None:
    """Have the database answer a new connection; raises psycopg's errors."""
    params = {**connection.get_connection_params(), "connect_timeout": ANSWERS_WITHIN}
    psycopg.connect(**params).close()


class Patience:
    """With a database that may fall silent; any number of threads may wait for it."""

    def __init__(self, trial: Callable[[], None] = try_anew) -> None:
        self._trial = trial
        self._lock = threading.Lock()
        self._waiting: dict[int, float] = {}
        self._watch: threading.Thread | None = None
        self.is_over = False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Use this thread's connection; raises `OperationalError` if the database is silent."""
        if self.is_over:
            raise OperationalError(SILENT)
        connection.ensure_connection()
        # A number of our own for it: whatever becomes of the connection, we cut no other.
        line = os.dup(connection.connection.fileno())
        with self._lock:
            self._waiting[line] = monotonic()
            if self._watch is None:
                self._watch = threading.Thread(target=self._look_often, daemon=True)
                self._watch.start()
        try:
            yield
        finally:
            with self._lock:
                del self._waiting[line]
            os.close(line)

    def cause_of(self, error: Exception) -> Exception:
        """Why an exception came about: it names a broken line where we have cut it."""
        return OperationalError(SILENT) if self.is_over else error

    def look(self) -> None:
        """Try the database if somebody waits for long, or if it did not answer before."""
        if not self.is_over and not self._is_late():
            return
        try:
            self._trial()
        except psycopg.Error:
            self.is_over = True
            self._cut()
        else:
            self.is_over = False

    def _is_late(self) -> bool:
        with self._lock:
            return any(monotonic() - since > LONGEST for since in self._waiting.values())

    def _cut(self) -> None:
        """Have those who wait read the end of what the database says."""
        with self._lock:
            for line in self._waiting:
                with suppress(OSError), socket.socket(fileno=os.dup(line)) as theirs:
                    theirs.shutdown(socket.SHUT_RDWR)

    def _look_often(self) -> None:
        while True:
            threading.Event().wait(EVERY)
            self.look()


#: With the one database that a process has.
with_the_database: Final = Patience()
