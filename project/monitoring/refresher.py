"""Reads a value in a background thread, one read at a time, and caches it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Generic, TypeVar

ValueT = TypeVar("ValueT")


class Refresher(Generic[ValueT]):
    """Caches the value that `read` returns for `keep_seconds`.

    The caller that finds an old value starts a read in a thread.  Callers wait until the read has
    taken `timeout_seconds`, and no longer.  So a database that does not answer delays few requests,
    and many requests cause one read.  While a read is in progress, other callers get the previous
    value, if it is at most `max_age_seconds` old, without waiting.
    """

    def __init__(
        self,
        read: Callable[[], ValueT],
        *,
        keep_seconds: float,
        timeout_seconds: float,
        max_age_seconds: float = 0.0,
    ) -> None:
        self._read = read
        self._keep_seconds = keep_seconds
        self._timeout_seconds = timeout_seconds
        self._max_age_seconds = max_age_seconds
        self._lock = threading.Lock()
        self._value: ValueT | None = None
        self._read_at = float("-inf")
        self._reading: threading.Event | None = None
        self._began_at = float("-inf")

    def get(self) -> ValueT | None:
        """Return the value, or None if no value of a sufficient age can be read in time.

        If `read` returns None, the previous value is kept until it is too old.
        `read` must not raise exceptions: its caller could not get them.  If no thread can be
        started, the next caller tries again.
        """
        with self._lock:
            if self._age() <= self._keep_seconds:
                return self._value
            previous = self._value if self._age() <= self._max_age_seconds else None
            if self._reading is not None and previous is not None:
                return previous
            reading = self._reading or self._start_read()
            if reading is None:
                return previous
            seconds_left = self._began_at + self._timeout_seconds - monotonic()
        reading.wait(max(0.0, seconds_left))
        # A value that was read during the wait is at most this old.
        limit = max(self._keep_seconds + self._timeout_seconds, self._max_age_seconds)
        with self._lock:
            return self._value if self._age() <= limit else None

    def _start_read(self) -> threading.Event | None:
        """Start a read in a thread, and return its event; None if no thread can be started.

        The caller holds the lock, which the new thread needs to store its value.
        """
        reading = threading.Event()
        self._began_at = monotonic()
        try:
            threading.Thread(target=self._refresh, args=(reading,), daemon=True).start()
        except RuntimeError:
            return None
        self._reading = reading
        return reading

    def _age(self) -> float:
        return monotonic() - self._read_at

    def _refresh(self, reading: threading.Event) -> None:
        value: ValueT | None = None
        began = monotonic()
        try:
            value = self._read()
        finally:
            with self._lock:
                if value is not None:
                    self._value, self._read_at = value, began
                self._reading = None
            reading.set()
