"""Writes and reads the archive of purged rows, which has one file for each day."""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import BinaryIO, Final

from django.conf import settings

from scheduler.storage.disk import create, write_all
from scheduler.storage.syncing import sync_folder

_CHUNK: Final = 1 << 20
#: This level takes a third of the time of zlib's default level, for a third more bytes.
_LEVEL: Final = 3
_TRAILER: Final = 8
_ARCHIVE: Final = ".jsonl.gz"

#: By file name: the end of the last complete member when this process last appended, and the last
#: bytes of the member (checksum and length), which detect that the file was replaced.
_ends: dict[str, tuple[int, bytes]] = {}


def append_archive(day: date, lines: Iterable[bytes]) -> Path:
    """Append lines to a day's archive as one gzip member, and sync it; return the path.

    A crash may leave a truncated member, which the next call removes.  The rows of such a member
    are still in the database, because the purger deletes rows after this call.
    """
    path = Path(settings.VAR_DIR, "archive", f"{day:%Y-%m-%d}{_ARCHIVE}")
    data = b"".join(line.rstrip(b"\n") + b"\n" for line in lines)
    if not data:
        return path
    packer = zlib.compressobj(_LEVEL, wbits=31)
    member = packer.compress(data) + packer.flush()
    descriptor = create(os.fspath(path), os.O_RDWR | os.O_CREAT)
    with open(descriptor, "rb", buffering=0) as file:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        end = _end_of_archive(file, path.name)
        os.ftruncate(descriptor, end)
        os.lseek(descriptor, end, os.SEEK_SET)
        write_all(descriptor, member)
        os.fsync(descriptor)
        _ends[path.name] = (end + len(member), member[-_TRAILER:])
        if not end:
            sync_folder(os.path.dirname(path))
            sync_folder(os.fspath(settings.VAR_DIR))
    return path


def read_archive(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield the lines of an archive without newlines, up to the first damaged member."""
    with open(path, "rb") as file:
        for _, data in _members(file):
            yield from data.splitlines()


def archive_days() -> dict[str, Path]:
    """Return the paths of the archive's files by day (``YYYY-MM-DD``), the newest day first."""
    folder = Path(settings.VAR_DIR, "archive")
    paths_by_day = {path.name.removesuffix(_ARCHIVE): path for path in folder.glob(f"*{_ARCHIVE}")}
    return dict(sorted(paths_by_day.items(), reverse=True))


def archive_sizes(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return the size of an archive, and the end of its last complete member, in bytes."""
    with open(path, "rb") as file:
        end = max((position for position, _ in _members(file)), default=0)
        return os.fstat(file.fileno()).st_size, end


def _end_of_archive(file: BinaryIO, name: str) -> int:
    """Return the end of the last complete member, in bytes.

    Only bytes that other processes appended are read.
    """
    end, trailer = _ends.get(name, (0, b""))
    _ends.clear()  # entries of earlier days are not needed
    file.seek(max(0, end - _TRAILER))
    if file.read(len(trailer)) != trailer:
        end = 0
    file.seek(end)
    for position, _ in _members(file):
        end = position
    return end


def _members(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the end and the content of each complete gzip member after the file's position."""
    position, waiting = file.tell(), b""
    while True:
        unpacker, parts = zlib.decompressobj(wbits=31), []
        while not unpacker.eof:
            chunk = waiting or file.read(_CHUNK)
            if not chunk:
                return
            try:
                parts.append(unpacker.decompress(chunk))
            except zlib.error:
                return
            waiting = b""
            position += len(chunk)
        waiting = unpacker.unused_data
        position -= len(waiting)
        yield position, b"".join(parts)
