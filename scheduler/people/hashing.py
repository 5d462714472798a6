"""Hashes passwords in a bounded queue, without a database connection.

Hashing deliberately takes 50 ms of CPU time and 16 MB, and any visitor can cause it.  Therefore,
one thread of each process computes all hashes.  A request returns its database connection to the
pool before it waits, so that scheduler RPCs have enough connections.  Waiting requests occupy
threads of the web server, so requests beyond `max_waiting_hashes` are refused immediately.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from django.conf import settings
from django.db import connections

#: `Retry-After` of a refused request: a full queue empties within about this time.
RETRY_AFTER_SECONDS = 5


class HashQueueFull(Exception):
    """The queue of password hashes is full. Hint: try again in a few seconds."""

    def __init__(self) -> None:
        super().__init__(
            "Too many people are logging in at this moment. Hint: try again in a few seconds."
        )


_hasher = ThreadPoolExecutor(1, thread_name_prefix="scrypt")
_lock = threading.Lock()
_waiting = 0


def in_queue(
    compute_hash: Callable[[], str], *, before_waiting: Callable[[], None] | None = None
) -> str:
    """Run `compute_hash` in the queue and return its result.

    Releases the calling thread's database connections, unless a transaction is open.  Raises
    `HashQueueFull` if `max_waiting_hashes` requests are waiting.  Tests pass `before_waiting`,
    which is called in the calling thread.
    """
    global _waiting  # noqa: PLW0603  one queue per process
    release_connections()
    with _lock:
        if _waiting >= settings.PROJECT.max_waiting_hashes:
            raise HashQueueFull
        _waiting += 1
    try:
        if before_waiting is not None:
            before_waiting()
        return _hasher.submit(compute_hash).result()
    finally:
        with _lock:
            _waiting -= 1


def release_connections() -> None:
    """Return this thread's database connections to their pool, unless a transaction is open."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()
