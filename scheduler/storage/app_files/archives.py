"""Reads the members of a zip or tar archive, with bounded memory and disk space.

Theory of operation.  The caller limits the content of the members while it reads them.  This module
limits the metadata: a header of a tar may be gigabytes long, a zip may list a hundred million
files, and the standard library reads both into memory.  So all bytes between two members are read
through `_Bounded`, and members are counted, including folders.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import posixpath
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, NamedTuple, cast

#: Larger packages are refused: they are mistakes, or archives that expand to a huge size.
MAX_PACKAGE_BYTES = 2 * 1024**3
MAX_MEMBERS = 100_000
#: The maximum metadata of one member of a tar, and of all members of a zip.
_MAX_TAR_HEADER_BYTES: Final = 1 << 20
_MAX_ZIP_DIRECTORY_BYTES: Final = 1 << 25
#: The maximum length of the target of a symbolic link in a zip.
_MAX_LINK_BYTES: Final = 4096
_BY_START: Final[Mapping[bytes, Callable[[Path], Any]]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x5d\x00\x00": lzma.open,
}
#: The position of the magic bytes of an uncompressed tar.
_USTAR: Final = slice(257, 262)
_DAMAGED: Final = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
)


class UnreadablePackage(ValueError):
    """The source cannot be read as a package. Hint: see the message."""


class Member(NamedTuple):
    """A member of an archive: an open file, or a link to the member named `link`."""

    name: str
    content: BinaryIO | None
    executable: bool
    link: str = ""


def is_archive(path: Path) -> bool:
    """Return whether a file is a zip or tar; True for a truncated compressed file.

    Raises `UnreadablePackage` if the first header of a tar is too long.
    """
    if zipfile.is_zipfile(path):
        return True
    try:
        with _opened_tar(path, path.name):
            return True
    except tarfile.TarError:
        return False
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        # A truncated compressed file.
        return True


def members(path: Path, name: str) -> Iterator[Member]:
    """Yield the members of an archive except folders.

    Read the content of a member before the next member is requested.  `name` is the name of the
    archive in messages.  Raises `UnreadablePackage` for devices, for members or headers that are
    too large, and for more than `MAX_MEMBERS` members.
    """
    return _zip(path, name) if zipfile.is_zipfile(path) else _tar(path, name)


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Convert errors of a damaged archive in the block to `UnreadablePackage`."""
    try:
        yield
    except (*_DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        msg = f"{name} is damaged: {error}. Hint: create the archive again."
        raise UnreadablePackage(msg) from error


def check_size(nbytes: int, name: str) -> None:
    """Raise `UnreadablePackage` if `nbytes` is more than `MAX_PACKAGE_BYTES`."""
    if nbytes > MAX_PACKAGE_BYTES:
        raise UnreadablePackage(
            f"{name} has more than {MAX_PACKAGE_BYTES} bytes. "
            "Hint: leave out what the app does not need."
        )


def is_link(archive: str, name: str) -> UnreadablePackage:
    """Return the error for a member that is not a regular file."""
    return UnreadablePackage(
        f"{name} in {archive} is a link or a device. Hint: put the file itself there."
    )


class _Bounded:
    """A reader of an archive that reads at most `left` bytes; None means no limit."""

    def __init__(self, file: IO[bytes], name: str, left: int) -> None:
        self._file, self._name, self.left = file, name, cast("int | None", left)
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if self.left is None:
            return self._file.read(size)
        data = self._file.read(self.left + 1 if size < 0 else min(size, self.left + 1))
        if len(data) > self.left:
            msg = f"{self._name} has too long headers or too many files."
            raise UnreadablePackage(f"{msg} Hint: create an archive with fewer files.")
        self.left -= len(data)
        return data


def _zip(path: Path, archive: str) -> Iterator[Member]:
    with path.open("rb") as file:
        source = _Bounded(file, archive, _MAX_ZIP_DIRECTORY_BYTES)
        with zipfile.ZipFile(cast("IO[bytes]", source)) as opened:
            source.left = None
            for number, member in enumerate(opened.infolist()):
                _check_number(number, archive)
                if not member.is_dir():
                    yield from _zipped(opened, member, archive)


def _zipped(opened: zipfile.ZipFile, member: zipfile.ZipInfo, archive: str) -> Iterator[Member]:
    mode = member.external_attr >> 16
    # `filename` is not used: it ends at a NUL, and on Windows its separators are replaced.
    name = member.orig_filename
    check_size(member.file_size, archive)
    if stat.S_ISLNK(mode):
        if member.file_size > _MAX_LINK_BYTES:
            raise is_link(archive, name)
        target = opened.read(member).decode("utf-8", "replace")
        yield Member(name, None, executable=False, link=_beside(name, target))
        return
    if stat.S_IFMT(mode) not in {0, stat.S_IFREG}:
        raise is_link(archive, name)
    with opened.open(member) as content:
        yield Member(name, io.BufferedReader(content), bool(mode & stat.S_IXUSR))  # type: ignore[type-var]


def _tar(path: Path, archive: str) -> Iterator[Member]:
    with _opened_tar(path, archive) as (opened, source):
        number = 0
        while (member := opened.next()) is not None:
            _check_number(number, archive)
            number += 1
            source.left = None
            if not member.isdir():
                yield _tarred(opened, member, archive)
            source.left = _MAX_TAR_HEADER_BYTES


def _tarred(opened: tarfile.TarFile, member: tarfile.TarInfo, archive: str) -> Member:
    name = member.name.removeprefix("./")
    if member.issym():
        return Member(name, None, executable=False, link=_beside(name, member.linkname))
    if member.islnk():
        return Member(name, None, executable=False, link=member.linkname.removeprefix("./"))
    content = opened.extractfile(member) if member.isreg() else None
    if content is None:
        raise is_link(archive, name)
    check_size(member.size, archive)
    return Member(name, cast("BinaryIO", content), bool(member.mode & stat.S_IXUSR))


@contextmanager
def _opened_tar(path: Path, archive: str) -> Iterator[tuple[tarfile.TarFile, _Bounded]]:
    with ExitStack() as stack:
        file: IO[bytes] = stack.enter_context(path.open("rb"))
        start = file.read(_USTAR.stop)
        file.seek(0)
        if start[_USTAR] != b"ustar":
            for begins, opens in _BY_START.items():
                if start.startswith(begins):
                    file = stack.enter_context(opens(path))
        source = _Bounded(file, archive, _MAX_TAR_HEADER_BYTES)
        how: Any = {"fileobj": source, "mode": "r:"}
        yield stack.enter_context(tarfile.open(**how)), source


def _check_number(number: int, archive: str) -> None:
    if number >= MAX_MEMBERS:
        msg = f"{archive} has more than {MAX_MEMBERS} files. Hint: combine some files."
        raise UnreadablePackage(msg)


def _beside(name: str, target: str) -> str:
    """Return the target of a symbolic link, relative to the top of the archive."""
    if target.startswith("/"):
        return target
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
