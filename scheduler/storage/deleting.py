"""Deletes many files, in parallel on slow disks; a backup holds deletions.

A backup must contain every file that a row of its database snapshot refers to.  Therefore no file
is deleted from before the snapshot until the files are copied.  Two locks of the kernel ensure
this; they end with their process, so a killed backup holds nothing.  A backup takes the lock
`backup.lock`, so that no further deletion begins, and waits for those in progress by
`deletions.lock`, which each of them shares.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, perf_counter, sleep
from typing import Final

from django.conf import settings

from scheduler.storage.disk import create, unlink
from scheduler.storage.names import BadFileName, beside

#: The number of threads.
_MAX_CONCURRENT: Final = 8
#: The deletions of the first `_SAMPLE_SIZE` files are timed.  If their mean time is longer than
#: `_SLOW_SECONDS`, the remaining files are deleted in parallel.
_SAMPLE_SIZE, _SLOW_SECONDS = 16, 60e-6
#: A process that begins to delete files has `backup.lock` for some microseconds; a backup has it
#: much longer.
_BACKUP_LOCK_SECONDS: Final = 5.0
#: A deletion of very many old files takes minutes.
_DELETIONS_LOCK_SECONDS: Final = 600.0
_RETRY_SECONDS: Final = 0.01


class BackupRuns(Exception):
    """Another backup of this VAR_DIR, or a deletion, is running. Hint: wait for its end."""


class DeletionsHeld(Exception):
    """A backup is running, so no file may be deleted. Hint: repeat the command after its end."""


@contextlib.contextmanager
def deletions_allowed() -> Iterator[None]:
    """Allow the block to delete files; a backup that begins meanwhile waits for its end.

    Raises DeletionsHeld while a backup is running.
    """
    with _lock_file("backup.lock") as backup, _lock_file("deletions.lock") as deletions:
        try:
            fcntl.flock(backup, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            msg = f"A backup of {settings.VAR_DIR} is running, so no file is deleted."
            raise DeletionsHeld(f"{msg}\nHint: repeat the command after its end.") from None
        fcntl.flock(deletions, fcntl.LOCK_SH)
        fcntl.flock(backup, fcntl.LOCK_UN)
        yield


def are_deletions_held() -> bool:
    """Return whether a backup is running, so that no file may be deleted; writes nothing."""
    try:
        lock = os.open(f"{settings.VAR_DIR}/run/backup.lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


@contextlib.contextmanager
def deletions_held() -> Iterator[None]:
    """Hold all deletions of files inside the block; wait for deletions that are in progress.

    Raises BackupRuns if another process holds them, or does not finish its deletions.
    """
    with _lock_file("backup.lock") as backup, _lock_file("deletions.lock") as deletions:
        msg = f"Another backup of {settings.VAR_DIR} is running."
        _lock(backup, _BACKUP_LOCK_SECONDS, msg)
        msg = f"A process is deleting files of {settings.VAR_DIR} and does not finish."
        _lock(deletions, _DELETIONS_LOCK_SECONDS, msg)
        yield


@contextlib.contextmanager
def _lock_file(name: str) -> Iterator[int]:
    descriptor = create(f"{settings.VAR_DIR}/run/{name}", os.O_RDWR | os.O_CREAT)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int, seconds: float, problem: str) -> None:
    """Take an exclusive lock; raises BackupRuns if that is not possible within some seconds."""
    give_up_at = monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() > give_up_at:
                raise BackupRuns(f"{problem}\nHint: wait for its end.") from None
            sleep(_RETRY_SECONDS)
        else:
            return


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
