"""Deletes many files: some disks make one wait, so several wait at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Final

from scheduler.storage.disk import unlink
from scheduler.storage.names import BadFileName, beside

#: How many wait at once.
_AT_ONCE: Final = 8
#: So many are deleted first; if one of them took longer than this (seconds), the rest is shared.
_TRIED_FIRST, _SLOW = 16, 60e-6


def delete_each(names: Iterable[str], delete: Callable[[str], None]) -> dict[str, str]:
    """Delete one after the other, or several at once; return name -> error for what resists.

    ``delete`` raises OSError or BadFileName, with a text that says why.
    """
    waiting = list(names)
    began = perf_counter()
    failures = _delete(waiting[:_TRIED_FIRST], delete)
    rest = waiting[_TRIED_FIRST:]
    if not rest or perf_counter() - began < _SLOW * _TRIED_FIRST:
        return failures | _delete(rest, delete)
    shares = [rest[first::_AT_ONCE] for first in range(_AT_ONCE)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for found in pool.map(lambda share: _delete(share, delete), shares):
            failures |= found
    return failures


def delete_with_digest(path: str) -> None:
    """Take away a file and the digest that may lie beside it."""
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
