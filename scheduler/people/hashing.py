"""Hash passwords in a bounded queue, without a database connection.

Hashing takes a twentieth of a second of a core and 16 MB, on purpose, and any visitor can cause it.
So one thread of each process hashes.  A request that waits for it first returns its database
connection to the pool, so that scheduler RPCs keep their connections.  When `max_waiting_hashes`
wait, further ones are refused at once: waiting requests hold threads of the web server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from django.conf import settings
from django.db import connections

#: The Retry-After of a refusal: a full queue is empty within about that time.
RETRY_AFTER_SECONDS = 5


class HashQueueFull(Exception):
    """Too many passwords wait to be checked. Hint: try again in a few seconds."""

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
    """Return the result of `compute_hash`, which runs after the hashes that were queued before.

    Releases the calling thread's database connections, unless a transaction is open.  Raises
    `HashQueueFull` at once.  `before_waiting` is called in the calling thread, for tests.
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
