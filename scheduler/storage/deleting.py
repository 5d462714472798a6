"""Deletes many files, in parallel on slow disks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Final

from scheduler.storage.disk import unlink
from scheduler.storage.names import BadFileName, beside

#: The number of threads.
_MAX_CONCURRENT: Final = 8
#: The deletions of the first `_SAMPLE_SIZE` files are timed.  If their mean time is longer than
#: `_SLOW_SECONDS`, the remaining files are deleted in parallel.
_SAMPLE_SIZE, _SLOW_SECONDS = 16, 60e-6


def delete_each(names: Iterable[str], delete: Callable[[str], None]) -> dict[str, str]:
    """Call `delete` for each name; return the error messages by name.

    If the first calls are slow, the other calls run in parallel.  `delete` may raise OSError or
    BadFileName; other exceptions are not caught.
    """
    waiting = list(names)
    began = perf_counter()
    failures = _delete(waiting[:_SAMPLE_SIZE], delete)
    rest = waiting[_SAMPLE_SIZE:]
    if not rest or perf_counter() - began < _SLOW_SECONDS * _SAMPLE_SIZE:
        return failures | _delete(rest, delete)
    shares = [rest[first::_MAX_CONCURRENT] for first in range(_MAX_CONCURRENT)]
    with ThreadPoolExecutor(_MAX_CONCURRENT) as pool:
        for share_failures in pool.map(lambda share: _delete(share, delete), shares):
            failures |= share_failures
    return failures


def delete_with_digest(path: str) -> None:
    """Delete a file and its digest file, if they exist."""
    unlink(path)
    digest = beside(path, "digest")
    if os.access(digest, os.F_OK):
        unlink(digest)


def _delete(names: Sequence[str], delete: Callable[[str], None]) -> dict[str, str]:
    failures: dict[str, str] = {}
    for name in names:
        try:
            delete(name)
        except (OSError, BadFileName) as error:
            failures[name] = str(error)
    return failures
