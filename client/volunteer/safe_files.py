"""Opens files that a science program may have left, without following links.

A program may leave a symbolic link, a hard link, a named pipe or a device where the client expects
a file. If the client followed a link, it could upload or overwrite a private file of the volunteer.
If it opened a pipe, it could block. Every function takes a trusted folder and a name below it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
PRIVATE = 0o600


class UnsafeFileError(OSError):
    """The path is not a plain file in plain folders. The message contains the reason."""


@contextmanager
def _parent(root: Path, name: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """Open the folder of a name, and yield its descriptor and the last part of the name.

    The folders of the path are opened one by one, without following links. If `create` is set,
    missing folders are created.
    """
    *folders, last = Path(name).parts
    descriptor = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
    try:
        for folder in folders:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(folder, 0o700, dir_fd=descriptor)
            below = _open(folder, _FOLDER, descriptor, name)
            os.close(descriptor)
            descriptor = below
        yield descriptor, last
    finally:
        os.close(descriptor)


def _open(part: str, flags: int, folder: int, name: str, mode: int = PRIVATE) -> int:
    try:
        return os.open(part, flags, mode, dir_fd=folder)
    except OSError as error:
        # For a link, Linux returns ELOOP or ENOTDIR, BSD systems EMLINK or EFTYPE.
        if error.errno in {errno.ENOENT, errno.EEXIST, errno.ENOSPC, errno.EACCES}:
            raise
        raise UnsafeFileError(
            f"{name} is not a plain file in a plain folder ({os.strerror(error.errno or 0)})"
        ) from error


def _open_plain(part: str, flags: int, folder: int, name: str) -> int:
    """Open a plain file, and return its descriptor.

    Raises UnsafeFileError for links, special files and files with several hard links.
    """
    descriptor = _open(part, flags | _FILE, folder, name)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise UnsafeFileError(f"{name} is not a plain file")
    # The other name may belong to a private file of the volunteer.
    raise UnsafeFileError(f"{name} is a hard link: the file has {status.st_nlink} names")


@contextmanager
def opened(root: Path, name: str) -> Iterator[IO[bytes]]:
    """Open a plain file for reading.

    Raises FileNotFoundError if there is no file, UnsafeFileError if it is not a plain file, and
    another OSError if it cannot be opened.
    """
    with _parent(root, name) as (folder, last):
        descriptor = _open_plain(last, os.O_RDONLY, folder, name)
    with os.fdopen(descriptor, "rb") as file:
        yield file


def read_start(root: Path, name: str, max_bytes: int) -> bytes | None:
    """Return at most `max_bytes` from the start of a plain file, or None if it cannot be read."""
    try:
        with opened(root, name) as file:
            return file.read(max_bytes)
    except OSError:
        return None


def exists(root: Path, name: str) -> bool:
    """Return whether a file, folder or link has this name, even if the link is broken."""
    try:
        with _parent(root, name) as (folder, last):
            os.stat(last, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def created(root: Path, name: str, mode: int = PRIVATE) -> Iterator[IO[bytes]]:
    """Create or replace a file, and create missing folders.

    The file gets its name when the block ends without an error. Raises UnsafeFileError if a part of
    the path that must be a folder is a link or a file.
    """
    with _parent(root, name, create=True) as (folder, last):
        temporary = f".{secrets.token_hex(8)}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
        descriptor = _open(temporary, flags, folder, name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                os.fchmod(descriptor, mode)
            os.rename(temporary, last, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


def open_to_append(root: Path, name: str) -> IO[bytes]:
    """Open a file for appending. A link or a special file is replaced by a new file."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    with _parent(root, name, create=True) as (folder, last):
        try:
            descriptor = _open_plain(last, flags, folder, name)
        except UnsafeFileError:
            os.unlink(last, dir_fd=folder)
            descriptor = _open_plain(last, flags | os.O_EXCL, folder, name)
    return os.fdopen(descriptor, "ab")


def open_to_change(root: Path, name: str) -> IO[bytes]:
    """Open a plain file for reading and writing, or create the file.

    Raises UnsafeFileError if the name belongs to a link, a special file, a folder or a file with
    several hard links, and FileNotFoundError if a folder of its path is missing.
    """
    with _parent(root, name) as (folder, last):
        descriptor = _open_plain(last, os.O_RDWR | os.O_CREAT, folder, name)
    return os.fdopen(descriptor, "r+b")


def set_mode(path: Path, mode: int) -> None:
    """Set the permissions of a plain file. Raises the same errors as `opened`."""
    with opened(path.parent, path.name) as file:
        os.fchmod(file.fileno(), mode)


def move(source_root: Path, source: str, root: Path, name: str) -> None:
    """Move a plain file to another place on the same disk. Raises the same errors as `opened`."""
    with opened(source_root, source):
        pass
    with (
        _parent(source_root, source) as (source_folder, source_last),
        _parent(root, name, create=True) as (folder, last),
    ):
        os.rename(source_last, last, src_dir_fd=source_folder, dst_dir_fd=folder)


def remove(root: Path, name: str) -> None:
    """Delete a file, or a link without its target, if it exists."""
    with contextlib.suppress(FileNotFoundError), _parent(root, name) as (folder, last):
        os.unlink(last, dir_fd=folder)


def make_folder(root: Path, name: str) -> None:
    """Create a folder with its parents. Raises UnsafeFileError if a part of the path is a link."""
    with _parent(root, f"{name}/-", create=True):
        pass
