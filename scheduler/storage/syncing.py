"""Syncs files to the disk, either one by one or a whole file system at once."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterable, Sequence
from typing import Final

#: From this number of files on, `syncfs` is faster than an `fsync` of each file and folder.
SYNCFS_MIN_FILES: Final = 8

_libc: Final = ctypes.CDLL(None, use_errno=True)
#: `syncfs` reports write errors from this version of Linux on.
_SYNCFS_REPORTS_ERRORS: Final = (5, 8)


def sync(paths: Sequence[str], *, top: str) -> None:
    """Sync files, their folders and the folders up to ``top`` to the disk."""
    if len(paths) < SYNCFS_MIN_FILES or not _sync_file_systems({top, *map(os.path.dirname, paths)}):
        _sync_each(paths, top)


def sync_folder(path: str) -> None:
    """Sync the names of the files in a folder to the disk."""
    _fsync(path, os.O_DIRECTORY)


def _sync_each(paths: Iterable[str], top: str) -> None:
    folders: set[str] = {top}
    for path in paths:
        _fsync(path)
        folder = os.path.dirname(path)
        while folder not in folders and len(folder) > len(top):
            folders.add(folder)
            folder = os.path.dirname(folder)
    for folder in folders:
        sync_folder(folder)


def _fsync(path: str, flags: int = 0) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_file_systems(folders: Iterable[str]) -> bool:
    """Sync the file systems of these folders; return False if `syncfs` is not supported."""
    folder_by_device = {os.stat(folder).st_dev: folder for folder in folders}
    return _can_syncfs() and all(_syncfs(folder) for folder in folder_by_device.values())


def _can_syncfs() -> bool:
    major, minor = os.uname().release.split(".")[:2]
    version = (int(major), int(minor.partition("-")[0]))
    return hasattr(_libc, "syncfs") and version >= _SYNCFS_REPORTS_ERRORS


def _syncfs(folder: str) -> bool:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not _libc.syncfs(descriptor):
            return True
        number = ctypes.get_errno()
    finally:
        os.close(descriptor)
    if number in {errno.ENOSYS, errno.EINVAL}:
        return False
    raise OSError(number, os.strerror(number), folder)
