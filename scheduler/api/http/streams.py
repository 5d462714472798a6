"""Bodies that are read piece by piece: decoded, hashed, cut into lines."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import monotonic
from typing import TYPE_CHECKING, Final

from scheduler import storage
from scheduler.api.http.problems import Problem, disk_full

if TYPE_CHECKING:
    from django.http import HttpRequest

#: How much is read at once; bytes.
_CHUNK: Final = 1 << 18
#: As much of a body that is refused is read, so that its sender listens; bytes.
_DRAINED: Final = 1 << 20
#: What a request may take to arrive; seconds.
MOST_SECONDS: Final = 3600.0


class Body:
    """The body of a request as it comes; `sha256` is of what was read of it, decoded."""

    def __init__(self, request: HttpRequest, *, most: int) -> None:
        """Refuse (413, 415) what its headers say is too long, or packed in another way."""
        environ = request.META
        self._read = environ["wsgi.input"].read
        chunked = "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower()
        length = environ.get("CONTENT_LENGTH") or ""
        self._left = None if chunked and not length else _number(length)
        self._most, self._got = most, 0
        self._until = monotonic() + MOST_SECONDS
        self.sha256 = hashlib.sha256()
        packed = request.headers.get("Content-Encoding", "identity").strip().lower()
        if packed not in {"identity", "gzip", ""}:
            msg = f"Content-Encoding {packed[:40]!r} is not read. Hint: send it plain or by gzip."
            raise Problem(415, "unknown_encoding", msg)
        self._gzip = packed == "gzip"
        if self._left is not None and self._left > most:
            raise self._too_long()
        self._pieces = self._unpacked() if self._gzip else self._raw()
        self._while_waiting: Callable[[], AbstractContextManager[object]] = nullcontext

    @property
    def length(self) -> int | None:
        """How many bytes are still to come, if that was said."""
        return self._left

    @property
    def says_its_end(self) -> bool:
        """Whether it is noticed if the client goes away half way.

        Not of what comes in chunks: web servers tell nobody that the last was missing.
        """
        return self._gzip or self._left is not None

    @contextmanager
    def waiting(self, meanwhile: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
        """Have each wait for what the client sends be in a context of its own, in this one."""
        self._while_waiting = meanwhile
        try:
            yield
        finally:
            self._while_waiting = nullcontext

    def chunks(self) -> Iterator[bytes]:
        """What is still to come, decoded and hashed.

        Raises `Problem` if it is cut short or too long, or if the disk has no room for it.
        """
        for chunk in self._pieces:
            self._got += len(chunk)
            if self._got > self._most:
                raise self._too_long()
            # However little was sent: packed, it may be a thousand times as long.
            if not storage.has_room_for(len(chunk)):
                raise disk_full()
            self.sha256.update(chunk)
            yield chunk

    def lines(self, *, most: int) -> Iterator[bytes]:
        """Cut it into lines of so many bytes at most; the last may lack its end."""
        rest = b""
        for chunk in self.chunks():
            *whole, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
            if len(rest) > most or any(len(line) > most for line in whole):
                msg = f"A line is longer than {most} bytes. Hint: upload large files on their own."
                raise Problem(413, "line_too_long", msg)
            yield from whole
        if rest:
            yield rest

    def skip(self) -> None:
        """Hash what is still to come, without looking at it; raises as `chunks`."""
        for _ in self.chunks():
            pass

    def drain(self) -> None:
        """Read and forget a little of what is left, so that the client listens."""
        left = _DRAINED if self._left is None else min(self._left, _DRAINED)
        while left > 0 and (chunk := self._more(min(left, _CHUNK))):
            left -= len(chunk)

    def _raw(self) -> Iterator[bytes]:
        while chunk := self._more(_CHUNK):
            if monotonic() > self._until:
                raise Problem(408, "too_slow", "The body took too long. Hint: send it in parts.")
            yield chunk
        if self._left:
            raise cut_short()

    def _more(self, most: int) -> bytes:
        want = most if self._left is None else min(most, self._left)
        if want <= 0:
            return b""
        try:
            with self._while_waiting():
                chunk: bytes = self._read(want)
        except OSError:
            raise cut_short() from None
        if self._left is not None:
            self._left -= len(chunk)
        return chunk

    def _unpacked(self) -> Iterator[bytes]:
        unpack = zlib.decompressobj(31)
        try:
            for packed in self._raw():
                waiting = packed
                while waiting:
                    if unpack.eof:
                        unpack = zlib.decompressobj(31)
                    if plain := unpack.decompress(waiting, _CHUNK):
                        yield plain
                    waiting = unpack.unconsumed_tail or unpack.unused_data
        except zlib.error as error:
            msg = f"The body is no gzip: {error}. Hint: leave Content-Encoding out, or pack it."
            raise Problem(400, "bad_gzip", msg) from None
        if not unpack.eof:
            raise cut_short()

    def _too_long(self) -> Problem:
        msg = f"The body is longer than {self._most} bytes. Hint: send it in parts."
        return Problem(413, "too_long", msg)


def _number(length: str) -> int:
    return int(length) if length.isdecimal() else 0


def cut_short(hint: str = "send it again; nothing was done.") -> Problem:
    """Say that a body was not all of it."""
    return Problem(400, "cut_short", f"The body ended before its end. Hint: {hint}")
