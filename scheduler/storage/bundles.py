"""Creates tar and zip archives that are streamed while they are written."""

from __future__ import annotations

import os
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import IO, Final, Protocol

from django.conf import settings

_CHUNK: Final = 1 << 18
_BLOCK: Final = 512
_IN_MEMORY: Final = 1 << 20
_BUFFER_BYTES: Final = 1 << 18
#: The minimum size of the chunks that `gathered` yields, except for the last chunk.
_MIN_CHUNK_BYTES: Final = 1 << 16


class Bundle(Protocol):
    """An archive that is sent while it is generated.

    The archive consists of all bytes that `add` and `end` yield, in this order.
    """

    def add(self, name: str, source: IO[bytes], nbytes: int, at: datetime) -> Iterator[bytes]:
        """Yield the bytes of a file's entry; raise `Shortened` if `source` is too short."""

    def end(self) -> Iterator[bytes]:
        """Yield the bytes at the end of the archive."""


class Shortened(Exception):
    """A file has fewer bytes than expected; zeros were written for the missing bytes."""


class Tar:
    """A tar archive in the pax format."""

    def __init__(self) -> None:
        self._nbytes = 0

    def add(self, name: str, source: IO[bytes], nbytes: int, at: datetime) -> Iterator[bytes]:
        member = tarfile.TarInfo(name)
        member.size = nbytes
        member.mtime = int(at.timestamp())
        member.mode = 0o644
        head = member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
        padding = -nbytes % _BLOCK
        self._nbytes += len(head) + nbytes + padding
        yield head
        missing = nbytes
        for chunk in _read(source, nbytes):
            missing -= len(chunk)
            yield chunk
        yield from _zeros(missing + padding)
        if missing:
            raise Shortened(name)

    def end(self) -> Iterator[bytes]:
        """Yield two empty blocks, padded to a record."""
        size = self._nbytes + 2 * _BLOCK
        yield bytes(2 * _BLOCK + -size % tarfile.RECORDSIZE)


class Zip:
    """An uncompressed zip archive; about a hundred bytes per file are kept in memory."""

    def __init__(self) -> None:
        self._out = _Pipe()
        self._zip = zipfile.ZipFile(self._out, "w", zipfile.ZIP_STORED)  # type: ignore[call-overload]  # only `write` and `flush` are needed

    def add(self, name: str, source: IO[bytes], nbytes: int, at: datetime) -> Iterator[bytes]:
        member = zipfile.ZipInfo(name, max(at.timetuple()[:6], (1980, 1, 1, 0, 0, 0)))
        member.file_size = nbytes
        member.external_attr = 0o644 << 16
        missing = nbytes
        with self._zip.open(member, "w") as written:
            for chunk in _read(source, nbytes):
                missing -= len(chunk)
                written.write(chunk)
                yield self._out.take()
            for zeros in _zeros(missing):
                written.write(zeros)
                yield self._out.take()
        yield self._out.take()
        if missing:
            raise Shortened(name)

    def end(self) -> Iterator[bytes]:
        """Yield the directory of the archive."""
        self._zip.close()
        yield self._out.take()


BUNDLES: Final[dict[str, type[Tar | Zip]]] = {"tar": Tar, "zip": Zip}


def spooled() -> IO[bytes]:
    """Return a temporary file without a name; closing it deletes it.

    A file of at most 1 MiB is in memory.  A longer file is in VAR_DIR.
    """
    folder = f"{settings.VAR_DIR}/spool"
    os.makedirs(folder, exist_ok=True)
    return tempfile.SpooledTemporaryFile(_IN_MEMORY, buffering=_BUFFER_BYTES, dir=folder)


def member_name(*parts: str) -> str:
    """Return the name of an archive member that stays in the target folder when unpacked.

    >>> member_name("wu_1", "../../etc/passwd")
    'wu_1/_/_/etc/passwd'
    """
    words = [word for part in parts for word in part.replace("\\", "/").split("/")]
    safe = ["_" if word in {"", ".", ".."} else _printable(word) for word in words]
    return "/".join(safe)


def gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of `pieces` in larger chunks, because each chunk takes time to send."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _MIN_CHUNK_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def _printable(word: str) -> str:
    return "".join("_" if ord(c) < ord(" ") or c in '\x7f:*?"<>|' else c for c in word)


def _read(source: IO[bytes], nbytes: int) -> Iterator[bytes]:
    left = nbytes
    while left > 0 and (chunk := source.read(min(_CHUNK, left))):
        left -= len(chunk)
        yield chunk


def _zeros(nbytes: int) -> Iterator[bytes]:
    for start in range(0, nbytes, _CHUNK):
        yield bytes(min(_CHUNK, nbytes - start))


class _Pipe:
    """A writable file without `seek`; `take` returns and removes the bytes in its buffer."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._waiting.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: there is no further buffer."""

    def take(self) -> bytes:
        data = b"".join(self._waiting)
        self._waiting = []
        return data
