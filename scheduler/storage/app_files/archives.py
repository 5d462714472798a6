"""Archives: the members of a zip or tar, none of which makes its reader burst.

Theory of operation.  What an archive holds is bounded by who reads it, member by member.  What it
says of its members is not: a header of a tar may be gigabytes long, a zip may list a hundred
million files, and the standard library reads either into memory.  So what is read between two
members comes through `_Bounded`, and members are counted, folders too.
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

#: More than this in a package is taken for a mistake, or for an archive made to burst.
MAX_BYTES = 2 * 1024**3
MAX_MEMBERS = 100_000
#: What a tar says of one member, and a zip of all of them, at most; bytes.
_MOST_OF_MEMBER: Final = 1 << 20
_MOST_OF_ALL: Final = 1 << 25
#: A path that a symbolic link in a zip leads to; bytes.
_LONGEST_LINK: Final = 4096
_BY_START: Final[Mapping[bytes, Callable[[Path], Any]]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x5d\x00\x00": lzma.open,
}
#: Where a tar that is not compressed says that it is one.
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
    """The source cannot be read as a package. Hint: the message says what to change."""


class Member(NamedTuple):
    """A member of an archive: an open file, or the name of another one (`link`)."""

    name: str
    content: BinaryIO | None
    executable: bool
    link: str = ""


def is_archive(path: Path) -> bool:
    """Whether it is a zip or a tar, perhaps a damaged one; raises `UnreadablePackage`."""
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
        # What begins as a compressed file and ends too soon.
        return True


def members(path: Path, name: str) -> Iterator[Member]:
    """Each member of an archive (called `name`) but its folders; to be read before the next one.

    Raises `UnreadablePackage` for devices and for more than `MAX_MEMBERS`.
    """
    return _zip(path, name) if zipfile.is_zipfile(path) else _tar(path, name)


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Around all that reads an archive: say (`UnreadablePackage`) that it is damaged."""
    try:
        yield
    except (*_DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        msg = f"{name} is damaged: {error}. Hint: make the archive anew."
        raise UnreadablePackage(msg) from error


def check_size(nbytes: int, name: str) -> None:
    """Raise `UnreadablePackage` for more than `MAX_BYTES`."""
    if nbytes > MAX_BYTES:
        msg = f"{name} has more than {MAX_BYTES} bytes. Hint: leave out what the app does not need."
        raise UnreadablePackage(msg)


def is_link(archive: str, name: str) -> UnreadablePackage:
    """Say that what is no plain file is not taken."""
    return UnreadablePackage(
        f"{name} in {archive} is a link or a device. Hint: put the file itself there."
    )


class _Bounded:
    """The bytes of an archive; `left` says how many may be read at this time, None any number."""

    def __init__(self, file: IO[bytes], name: str, left: int) -> None:
        self._file, self._name, self.left = file, name, cast("int | None", left)
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if self.left is None:
            return self._file.read(size)
        data = self._file.read(self.left + 1 if size < 0 else min(size, self.left + 1))
        if len(data) > self.left:
            msg = f"{self._name} says more of its files than they can be called."
            raise UnreadablePackage(f"{msg} Hint: make the archive anew, of fewer files.")
        self.left -= len(data)
        return data


def _zip(path: Path, archive: str) -> Iterator[Member]:
    with path.open("rb") as file:
        source = _Bounded(file, archive, _MOST_OF_ALL)
        with zipfile.ZipFile(cast("IO[bytes]", source)) as opened:
            source.left = None
            for number, member in enumerate(opened.infolist()):
                _check_number(number, archive)
                if not member.is_dir():
                    yield from _zipped(opened, member, archive)


def _zipped(opened: zipfile.ZipFile, member: zipfile.ZipInfo, archive: str) -> Iterator[Member]:
    mode = member.external_attr >> 16
    # orig_filename: zipfile hides what follows a NUL, and turns backslashes on Windows.
    name = member.orig_filename
    check_size(member.file_size, archive)
    if stat.S_ISLNK(mode):
        if member.file_size > _LONGEST_LINK:
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
            source.left = _MOST_OF_MEMBER


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
        source = _Bounded(file, archive, _MOST_OF_MEMBER)
        how: Any = {"fileobj": source, "mode": "r:"}
        yield stack.enter_context(tarfile.open(**how)), source


def _check_number(number: int, archive: str) -> None:
    if number >= MAX_MEMBERS:
        msg = f"{archive} has more than {MAX_MEMBERS} files. Hint: put them into fewer."
        raise UnreadablePackage(msg)


def _beside(name: str, target: str) -> str:
    """What a symbolic link names, from the top; nothing in an archive if it leads out."""
    if target.startswith("/"):
        return target
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
