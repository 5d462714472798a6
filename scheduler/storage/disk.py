"""Creates, links, copies and deletes files on the disk, with few system calls."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

_CHUNK: Final = 1 << 20
NO_LINKS: Final = {errno.ENOTSUP, errno.EPERM, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
_NO_CLONE: Final = {errno.ENOTSUP, errno.EXDEV, errno.EINVAL, errno.ENOSYS}
_NO_TMPFILE: Final = {errno.ENOTSUP, errno.EISDIR, errno.EINVAL, errno.ENOSYS}
#: Folders with many unrelated subfolders.
_SPREAD: Final = {"upload", "download"}
#: Linux's ioctls that read and set the attributes of a file, and the attribute of `chattr +T`.
_GET_FLAGS, _SET_FLAGS, _TOP_OF_HIERARCHIES = 0x80086601, 0x40086602, 0x00020000


#: Errors of an attempt to open a link, a socket, or a file as a folder.
_NOT_REGULAR: Final = {errno.ELOOP, errno.ENOTDIR, errno.ENXIO}
_KINDS: Final = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISREG, "a file"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
)


class NotRegularFile(OSError):
    """A path is not a regular file in folders; the message contains what it is instead."""


class Unsupported(Exception):
    """The file system does not support the operation; the caller has a fallback."""


def create(path: str, flags: int) -> int:
    """Open a file with these flags, creating missing folders; return a descriptor."""
    try:
        return os.open(path, flags | os.O_CLOEXEC, 0o644)
    except FileNotFoundError:
        make_folder(os.path.dirname(path))
        return os.open(path, flags | os.O_CLOEXEC, 0o644)


def open_regular(top: str, relative: str) -> BinaryIO:
    """Open a regular file below the folder `top` for reading, without following symbolic links.

    Only `top` itself may be a link.  The call never waits, as opening a named pipe would.  Raises
    FileNotFoundError, and NotRegularFile for a link, a folder or a special file.
    """
    *folders, name = relative.split("/")
    folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in folders:
            below = _open_below(folder, part, os.O_DIRECTORY)
            os.close(folder)
            folder = below
        descriptor = _open_below(folder, name, os.O_NONBLOCK)
    finally:
        os.close(folder)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise NotRegularFile(f"{name!r} is {_kind(mode)}, not a regular file")
    return open(descriptor, "rb")


def _open_below(folder: int, part: str, flags: int) -> int:
    try:
        return os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=folder)
    except OSError as error:
        if error.errno not in _NOT_REGULAR:
            raise
    wanted = "folder" if flags & os.O_DIRECTORY else "regular file"
    kind = _kind(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode)
    raise NotRegularFile(f"{part!r} is {kind}, not a {wanted}")


def _kind(mode: int) -> str:
    return next((kind for matches, kind in _KINDS if matches(mode)), "a device")


def create_nameless(folder: str) -> int:
    """Open a new file without a name, which is deleted on close; raises Unsupported."""
    flags = os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC
    try:
        return os.open(folder, flags, 0o644)
    except FileNotFoundError:
        make_folder(folder)
        return os.open(folder, flags, 0o644)
    except OSError as error:
        if error.errno in _NO_TMPFILE:
            raise Unsupported from None
        raise


def name_nameless(descriptor: int, target: str) -> None:
    """Give a file without a name the name `target`; raises FileExistsError, Unsupported."""
    try:
        # Python follows the link only with src_dir_fd, whose value is ignored.
        os.link(f"/proc/self/fd/{descriptor}", target, src_dir_fd=descriptor, follow_symlinks=True)
    except FileNotFoundError:
        raise Unsupported from None  # no /proc
    except OSError as error:
        if error.errno in NO_LINKS:
            raise Unsupported from None
        raise


def make_folder(path: str) -> None:
    """Create a folder and its parents if they do not exist."""
    above = os.path.dirname(path)
    if os.path.basename(above) in _SPREAD and not os.path.exists(above):
        os.makedirs(above, exist_ok=True)
        _spread(above)
    os.makedirs(path, exist_ok=True)


def _spread(folder: str) -> None:
    """Make ext4 spread the subfolders of a folder over the disk, if possible (decision 14).

    Otherwise ext4 puts all subfolders and their files into the same block groups, where inodes
    become scarce, so that the search for a free inode for each new file takes long.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with contextlib.suppress(OSError):
        (flags,) = struct.unpack("I", fcntl.ioctl(descriptor, _GET_FLAGS, bytes(4)))
        fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("I", flags | _TOP_OF_HIERARCHIES))
    os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes, repeating partial writes."""
    written = os.write(descriptor, data)
    while written < len(data):
        data = data[written:]
        written = os.write(descriptor, data)


def unlink(path: str) -> None:
    """Delete a file if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def link(source: str, target: str) -> None:
    """Give the file `source` the second name `target`; raises FileExistsError.

    On a file system without hard links, the file is renamed.
    """
    try:
        os.link(source, target)
    except FileNotFoundError:
        os.stat(source)
        make_folder(os.path.dirname(target))
        link(source, target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if os.path.exists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from None
        make_folder(os.path.dirname(target))
        os.rename(source, target)  # without hard links, a race with other processes remains


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces the target at the end of the block.

    If the block raises an error, the temporary file is deleted.
    """
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
    """Copy an open file from its position to its end; the copy shares disk blocks if possible."""
    try:
        while os.copy_file_range(source.fileno(), target.fileno(), 1 << 30):
            pass
    except OSError as error:
        if error.errno not in _NO_CLONE:
            raise
    shutil.copyfileobj(source, target, _CHUNK)  # the remaining bytes, usually none
