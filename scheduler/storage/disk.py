"""The disk: what is done with every file, in as few system calls as it takes."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

_CHUNK: Final = 1 << 20
_NO_LINKS: Final = {errno.ENOTSUP, errno.EPERM, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
_NO_CLONE: Final = {errno.ENOTSUP, errno.EXDEV, errno.EINVAL, errno.ENOSYS}


def create(path: str, flags: int) -> int:
    """Open with these flags, making the folders if they are missing."""
    try:
        return os.open(path, flags | os.O_CLOEXEC, 0o644)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, flags | os.O_CLOEXEC, 0o644)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes, in as many calls as the kernel wants."""
    written = os.write(descriptor, data)
    while written < len(data):
        data = data[written:]
        written = os.write(descriptor, data)


def unlink(path: str) -> None:
    """Take a name away; doing so twice is fine."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def link(source: str, target: str) -> None:
    """Give a file a second name that must be new: FileExistsError otherwise."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.exists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from None
        os.rename(source, target)  # a file system without links: not quite as safe


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Open a new file that takes the target's name if all goes well, and vanishes otherwise."""
    temporary = f"{target.parent}/.{secrets.token_hex(8)}.part"
    descriptor = create(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with open(descriptor, "wb") as file:
            yield file
        os.rename(temporary, target)
    except BaseException:
        unlink(temporary)
        raise


def copy(source: BinaryIO, target: BinaryIO) -> None:
    """Copy the rest of an open file, sharing its blocks where the file system can."""
    try:
        while os.copy_file_range(source.fileno(), target.fileno(), 1 << 30):
            pass
    except OSError as error:
        if error.errno not in _NO_CLONE:
            raise
    shutil.copyfileobj(source, target, _CHUNK)  # what the kernel left, most often nothing


def sync(paths: Iterable[str], *, top: str) -> None:
    """Put files on the disk for good, and each folder between them and ``top``, once each."""
    folders: set[str] = {top}
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        folder = os.path.dirname(path)
        while folder not in folders and len(folder) > len(top):
            folders.add(folder)
            folder = os.path.dirname(folder)
    for folder in folders:
        sync_folder(folder)


def sync_folder(path: str) -> None:
    """Put the names in a folder on the disk for good."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
