"""Reads a batch's outputs as they stream: files, then what they must be."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import httpx

from scientist import models
from scientist.errors import Damaged, Unreachable
from scientist.naming import member_name, parts_of, workunit_name
from scientist.transport import Transport

_MANIFEST = "MANIFEST.ndjson"
_CHUNK = 1 << 18
_LONGEST_LINE = 1 << 24
_AGAIN = "do it again: what has arrived whole stays."


class Content:
    """The bytes of one file in the stream.  `read` raises Unreachable if the stream breaks off."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, nbytes: int = -1) -> bytes:
        """Read so many bytes at most, or all."""
        try:
            return self._file.read(nbytes)
        except (tarfile.TarError, EOFError) as error:
            raise Unreachable(f"The stream of outputs broke off: {error}", _AGAIN) from error


@dataclass(frozen=True, slots=True)
class Member:
    """An output file; `content` must be read before the next one is asked for."""

    workunit: str
    path: str
    nbytes: int
    content: Content


@dataclass(frozen=True, slots=True)
class Cursor:
    """Up to where the answer went: what `since` takes the next time."""

    value: str


class _Pipe(io.RawIOBase):
    """The bytes of an answer as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        target = memoryview(buffer).cast("B")  # type: ignore[arg-type]  # any buffer
        while not self._rest:
            try:
                chunk = next(self._chunks, None)
            except httpx.TransportError as error:
                # Whoever reads a file is no longer within the `with` that opened the stream.
                raise Unreachable(f"The stream of outputs broke off: {error}", _AGAIN) from error
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        taken = min(len(target), len(self._rest))
        target[:taken] = self._rest[:taken]
        self._rest = self._rest[taken:]
        return taken


#: What a stream of outputs is made of.
Piece = Member | models.ManifestEntry | Cursor


def outputs(
    transport: Transport, batch: int, since: str | None, workunit: str | None = None
) -> Iterator[Piece]:
    """Stream what a batch has brought since a cursor: files, then the manifest, then a cursor.

    With `workunit`, of that one alone.

    Raises Unreachable if the stream breaks off, Damaged if it makes no sense.
    """
    params = {"format": "tar", "since": since, "workunit": workunit}
    with transport.stream(f"batches/{batch}/outputs", params) as answer:
        pipe = io.BufferedReader(_Pipe(answer.iter_bytes()), _CHUNK)
        whole = False
        try:
            with tarfile.open(fileobj=pipe, mode="r|") as archive:
                for member in archive:
                    if member.name == _MANIFEST:
                        yield from _manifest(_content(archive, member))
                        whole = True
                    else:
                        yield _member(archive, member)
        except (tarfile.TarError, EOFError) as error:
            raise Unreachable(f"The stream of outputs broke off: {error}", _AGAIN) from error
        if not whole:
            raise Unreachable("The stream of outputs broke off before its manifest.", _AGAIN)


def manifest(transport: Transport, batch: int, since: str | None) -> Iterator[Piece]:
    """Stream the manifest alone."""
    params = {"format": "ndjson", "since": since}
    with transport.stream(f"batches/{batch}/outputs", params) as answer:
        pipe = io.BufferedReader(_Pipe(answer.iter_bytes()), _CHUNK)
        yield from _manifest(pipe)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member) if member.isreg() else None
    if content is None:
        hint = "ask the project what this is; nothing was written there."
        raise Damaged(f"The archive has {member.name[:120]!r}, which is no plain file.", hint)
    return content


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Member:
    workunit, _, path = member.name.partition("/")
    parts_of(path)
    content = Content(_content(archive, member))
    return Member(workunit_name(workunit), path, member.size, content)


def path_of(output: models.Output) -> str:
    """Where in its workunit's folder an output is: an archive cannot take every open_name."""
    return output.member.partition("/")[2] or member_name(output.open_name)


def _manifest(file: IO[bytes]) -> Iterator[Piece]:
    cursor = ""
    while line := file.readline(_LONGEST_LINE):
        if not line.strip():
            continue
        try:
            said = json.loads(line)
        except ValueError:
            raise Unreachable("The manifest broke off in the middle of a line.", _AGAIN) from None
        if isinstance(said, dict) and "name" in said:
            yield models.read(models.ManifestEntry, said)
        elif isinstance(said, dict):
            cursor = str(said.get("cursor") or cursor)
    if not cursor:
        raise Unreachable("The manifest broke off before its last line.", _AGAIN)
    yield Cursor(cursor)


def stderr_of(transport: Transport, workunit: int) -> str:
    """What the programs of a workunit's results wrote to stderr, the newest last."""
    parts = []
    for one in transport.pages("results", {"workunit": workunit}):
        whole = transport.get(f"results/{one['id']}")
        if text := whole.get("stderr"):
            parts.append(f"--- {whole.get('name', one['id'])}\n{text.rstrip()}\n")
    return "".join(reversed(parts))
