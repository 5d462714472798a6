"""Reads request bodies in chunks: decompresses, hashes and splits them into lines."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Semaphore
from time import monotonic
from typing import TYPE_CHECKING, Final

from scheduler import storage
from scheduler.api.http.problems import Problem, disk_full

if TYPE_CHECKING:
    from django.http import HttpRequest

#: Maximum size of one read, in bytes.
_CHUNK: Final = 1 << 18
#: Maximum number of bytes to discard from a refused body.  A client that cannot finish sending may
#: not read the response.
_MAX_DRAINED_BYTES: Final = 1 << 20
#: Maximum time for a body to arrive.
MAX_BODY_SECONDS: Final = 3600.0


class Body:
    """Reads the body of a request in chunks; `sha256` hashes the decompressed bytes read so far."""

    def __init__(self, request: HttpRequest, *, max_bytes: int) -> None:
        """Raise `Problem` for a `Content-Length` above `max_bytes` or an unknown encoding."""
        environ = request.META
        self._read = environ["wsgi.input"].read
        chunked = "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower()
        length = environ.get("CONTENT_LENGTH") or ""
        self._left = None if chunked and not length else _number(length)
        self._max_bytes, self._n_read = max_bytes, 0
        self._deadline = monotonic() + MAX_BODY_SECONDS
        self.sha256 = hashlib.sha256()
        packed = request.headers.get("Content-Encoding", "identity").strip().lower()
        if packed not in {"identity", "gzip", ""}:
            msg = (
                f"Content-Encoding {packed[:40]!r} is not supported. "
                "Hint: send the body uncompressed or with gzip."
            )
            raise Problem(415, "unknown_encoding", msg)
        self._gzip = packed == "gzip"
        if self._left is not None and self._left > max_bytes:
            raise self._too_long()
        self._pieces = self._unpacked() if self._gzip else self._raw()
        self._while_waiting: Callable[[], AbstractContextManager[object]] = nullcontext

    @property
    def length(self) -> int | None:
        """The number of unread bytes before decompression.

        None for a chunked body without `Content-Length`.
        """
        return self._left

    @property
    def detects_truncation(self) -> bool:
        """Whether an incomplete body can be detected.

        This is false for a chunked body without gzip, because web servers do not report a missing
        last chunk.
        """
        return self._gzip or self._left is not None

    @contextmanager
    def while_waiting(
        self, context: Callable[[], AbstractContextManager[object]]
    ) -> Iterator[None]:
        """While this context manager is active, run each read from the client in a `context()`."""
        self._while_waiting = context
        try:
            yield
        finally:
            self._while_waiting = nullcontext

    def chunks(self) -> Iterator[bytes]:
        """Yield the remaining chunks, decompressed; update `sha256`.

        Raises `Problem` if the body is truncated, too long, too slow or not valid gzip, or if
        the disk is full.
        """
        for chunk in self._pieces:
            self._n_read += len(chunk)
            if self._n_read > self._max_bytes:
                raise self._too_long()
            # Checked for every chunk, because a compressed body can expand a thousandfold.
            if not storage.has_room_for(len(chunk)):
                raise disk_full()
            self.sha256.update(chunk)
            yield chunk

    def lines(self, *, max_bytes: int) -> Iterator[bytes]:
        """Yield the lines without newlines; the last line need not end with a newline.

        Raises `Problem` (413) for a line longer than `max_bytes`, and the errors of `chunks`.
        """
        rest = b""
        for chunk in self.chunks():
            *whole, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
            if len(rest) > max_bytes or any(len(line) > max_bytes for line in whole):
                msg = (
                    f"A line is longer than {max_bytes} bytes. "
                    "Hint: upload large files with PUT /api/v1/files/{sha256}."
                )
                raise Problem(413, "line_too_long", msg)
            yield from whole
        if rest:
            yield rest

    def skip(self) -> None:
        """Read and hash the unread part of the body; raise the errors of `chunks`."""
        for _ in self.chunks():
            pass

    def drain(self) -> None:
        """Discard up to 1 MiB of the unread body, so that the client can read the response."""
        left = _MAX_DRAINED_BYTES if self._left is None else min(self._left, _MAX_DRAINED_BYTES)
        while left > 0 and (chunk := self._more(min(left, _CHUNK))):
            left -= len(chunk)

    def _raw(self) -> Iterator[bytes]:
        while chunk := self._more(_CHUNK):
            if monotonic() > self._deadline:
                msg = (
                    f"The body took longer than {MAX_BODY_SECONDS:.0f} seconds to arrive. "
                    "Hint: send it in parts."
                )
                raise Problem(408, "too_slow", msg)
            yield chunk
        if self._left:
            raise truncated()

    def _more(self, max_bytes: int) -> bytes:
        want = max_bytes if self._left is None else min(max_bytes, self._left)
        if want <= 0:
            return b""
        try:
            with self._while_waiting():
                chunk: bytes = self._read(want)
        except OSError:
            raise truncated() from None
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
            msg = (
                f"The body is not gzip: {error}. "
                "Hint: compress it, or remove the Content-Encoding header."
            )
            raise Problem(400, "bad_gzip", msg) from None
        if not unpack.eof:
            raise truncated()

    def _too_long(self) -> Problem:
        msg = f"The body is longer than {self._max_bytes} bytes. Hint: send it in parts."
        return Problem(413, "too_long", msg)


@contextmanager
def slot(slots: Semaphore, *, timeout: float, retry_after: int, reason: str) -> Iterator[None]:
    """Occupy one of `slots` during the `with` block.

    Raises `Problem` (503) with `reason` and `retry_after` if no slot becomes free within `timeout`
    seconds.
    """
    if not slots.acquire(timeout=timeout):
        msg = f"{reason} Hint: send the request again later."
        raise Problem(503, "busy", msg, retry_after=retry_after)
    try:
        yield
    finally:
        slots.release()


def _number(length: str) -> int:
    return int(length) if length.isdecimal() else 0


def truncated(
    hint: str = "send the request again. The incomplete request had no effect.",
) -> Problem:
    """Return the 400 problem for an incomplete body."""
    return Problem(400, "cut_short", f"The body is incomplete. Hint: {hint}")
