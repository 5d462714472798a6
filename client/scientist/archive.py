"""Reads a batch's outputs as a stream of files, which ends with their manifest."""

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
_CHUNK_BYTES = 1 << 18
_MAX_LINE_BYTES = 1 << 24
_RETRY_HINT = "try again; workunits that arrived completely are kept."


class Content:
    """The bytes of one file in the stream."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, nbytes: int = -1) -> bytes:
        """Return up to `nbytes` bytes, or all remaining bytes if `nbytes` is negative.

        Raises Unreachable if the stream breaks off.
        """
        try:
            return self._file.read(nbytes)
        except (tarfile.TarError, EOFError) as error:
            raise Unreachable(f"The stream of outputs broke off: {error}", _RETRY_HINT) from error


@dataclass(frozen=True, slots=True)
class Member:
    """An output file; `content` must be read before the next item of the stream."""

    workunit: str
    path: str
    nbytes: int
    content: Content


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last item of a stream.  `value` is the `since` parameter of the next request."""

    value: str


class _Pipe(io.RawIOBase):
    """A binary file that reads the chunks of an HTTP response."""

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
                # The caller reads outside the `with` of Transport.stream, which converts errors.
                raise Unreachable(
                    f"The stream of outputs broke off: {error}", _RETRY_HINT
                ) from error
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        taken = min(len(target), len(self._rest))
        target[:taken] = self._rest[:taken]
        self._rest = self._rest[taken:]
        return taken


#: An item of a stream of outputs.
Piece = Member | models.ManifestEntry | Cursor


def outputs(
    transport: Transport, batch: int, since: str | None, workunit: str | None = None
) -> Iterator[Piece]:
    """Yield the files of a batch, then the entries of their manifest, then a new cursor.

    `since` is the cursor of an earlier stream; None selects all outputs.  `workunit` is the name of
    a workunit, to which the stream is limited.  Raises Unreachable if the stream breaks off, and
    Damaged if a member is not a regular file or has an unsafe name.
    """
    params = {"format": "tar", "since": since, "workunit": workunit}
    with transport.stream(f"batches/{batch}/outputs", params) as answer:
        pipe = io.BufferedReader(_Pipe(answer.iter_bytes()), _CHUNK_BYTES)
        has_manifest = False
        try:
            with tarfile.open(fileobj=pipe, mode="r|") as archive:
                for member in archive:
                    if member.name == _MANIFEST:
                        yield from _manifest(_content(archive, member))
                        has_manifest = True
                    else:
                        yield _member(archive, member)
        except (tarfile.TarError, EOFError) as error:
            raise Unreachable(f"The stream of outputs broke off: {error}", _RETRY_HINT) from error
        if not has_manifest:
            raise Unreachable("The stream of outputs broke off before its manifest.", _RETRY_HINT)


def manifest(transport: Transport, batch: int, since: str | None) -> Iterator[Piece]:
    """Yield the entries of a batch's manifest, then a new cursor.

    `since` is the cursor of an earlier stream; None selects all entries.  Raises Unreachable if the
    stream breaks off.
    """
    params = {"format": "ndjson", "since": since}
    with transport.stream(f"batches/{batch}/outputs", params) as answer:
        pipe = io.BufferedReader(_Pipe(answer.iter_bytes()), _CHUNK_BYTES)
        yield from _manifest(pipe)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member) if member.isreg() else None
    if content is None:
        hint = "ask the project's staff about this file; it was not written."
        raise Damaged(f"The archive has {member.name[:120]!r}, which is not a regular file.", hint)
    return content


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Member:
    workunit, _, path = member.name.partition("/")
    parts_of(path)
    content = Content(_content(archive, member))
    return Member(workunit_name(workunit), path, member.size, content)


def path_of(output: models.Output) -> str:
    """Return the path of an output in its workunit's folder.

    The path is the output's name in the archive, without the workunit's folder.  It can differ from
    the open_name, because not every open_name is a valid file name.
    """
    return output.member.partition("/")[2] or member_name(output.open_name)


def _manifest(file: IO[bytes]) -> Iterator[Piece]:
    cursor = ""
    while line := file.readline(_MAX_LINE_BYTES):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            raise Unreachable(
                "The manifest broke off in the middle of a line.", _RETRY_HINT
            ) from None
        if isinstance(entry, dict) and "name" in entry:
            yield models.read(models.ManifestEntry, entry)
        elif isinstance(entry, dict):
            cursor = str(entry.get("cursor") or cursor)
    if not cursor:
        raise Unreachable("The manifest broke off before its last line.", _RETRY_HINT)
    yield Cursor(cursor)


def stderr_of(transport: Transport, workunit: int) -> str:
    """Return the stderr of a workunit's results as one text, the newest result last.

    A line with the result's name precedes its stderr.  Results with an empty stderr are omitted.
    """
    parts = []
    for row in transport.pages("results", {"workunit": workunit}):
        result = transport.get(f"results/{row['id']}")
        if text := result.get("stderr"):
            parts.append(f"--- {result.get('name', row['id'])}\n{text.rstrip()}\n")
    return "".join(reversed(parts))
