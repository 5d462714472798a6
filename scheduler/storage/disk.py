"""The disk: what is done with every file, in as few system calls as it takes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

_CHUNK: Final = 1 << 20
_NO_LINKS: Final = {errno.ENOTSUP, errno.EPERM, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
_NO_CLONE: Final = {errno.ENOTSUP, errno.EXDEV, errno.EINVAL, errno.ENOSYS}
_NO_NAMELESS: Final = {errno.ENOTSUP, errno.EISDIR, errno.EINVAL, errno.ENOSYS}
#: Hierarchies whose many folders have nothing to do with each other.
_SPREAD: Final = {"upload", "download"}
#: Linux's requests to read and to set the attributes of a file, and `chattr +T` among those.
_GET_FLAGS, _SET_FLAGS, _TOP_OF_HIERARCHIES = 0x80086601, 0x40086602, 0x00020000


class NotHere(Exception):
    """This file system cannot do that; there is a longer way."""


def create(path: str, flags: int) -> int:
    """Open with these flags, making the folders if they are missing."""
    try:
        return os.open(path, flags | os.O_CLOEXEC, 0o644)
    except FileNotFoundError:
        make_folder(os.path.dirname(path))
        return os.open(path, flags | os.O_CLOEXEC, 0o644)


def create_nameless(folder: str) -> int:
    """Open a new file that has no name yet, and vanishes without one; raises NotHere."""
    flags = os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC
    try:
        return os.open(folder, flags, 0o644)
    except FileNotFoundError:
        make_folder(folder)
        return os.open(folder, flags, 0o644)
    except OSError as error:
        if error.errno in _NO_NAMELESS:
            raise NotHere from None
        raise


def name_nameless(descriptor: int, target: str) -> None:
    """Give a nameless file its name, which must be new; raises FileExistsError, NotHere."""
    try:
        # A folder must be named for the link in /proc to be followed; an absolute path needs none.
        os.link(f"/proc/self/fd/{descriptor}", target, src_dir_fd=descriptor, follow_symlinks=True)
    except FileNotFoundError:
        raise NotHere from None  # no /proc
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise NotHere from None
        raise


def make_folder(path: str) -> None:
    """Make a folder and those above it; doing so twice is fine."""
    above = os.path.dirname(path)
    if os.path.basename(above) in _SPREAD and not os.path.exists(above):
        os.makedirs(above, exist_ok=True)
        _spread(above)
    os.makedirs(path, exist_ok=True)


def _spread(folder: str) -> None:
    """Have ext4 spread the folders in this one over the disk, where it can (decision 14).

    It puts files beside their folder, and all of these into one place otherwise: there, inodes
    become scarce, and each new file looks long for one.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with contextlib.suppress(OSError):
        (flags,) = struct.unpack("I", fcntl.ioctl(descriptor, _GET_FLAGS, bytes(4)))
        fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("I", flags | _TOP_OF_HIERARCHIES))
    os.close(descriptor)


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
    try:
        os.link(source, target)
    except FileNotFoundError:
        os.stat(source)
        make_folder(os.path.dirname(target))
        link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.exists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from None
        make_folder(os.path.dirname(target))
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
