"""Forms as BOINC's submitters send them: the field `request`, and files behind it.

Python's library sends it urlencoded, the C++ one as multipart; a body that is the request itself is
taken as well.  Django's own reader is not used: it has every field in memory twice over, and would
read all files before anybody knows whose they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from shutil import copyfileobj
from typing import IO, Any, Final, cast
from urllib.parse import unquote_to_bytes

from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest
from django.http.multipartparser import FILE, ChunkIter, LazyStream, MultiPartParserError, Parser

_FIELD: Final = "request"
_CHUNK: Final = 1 << 16
_MOST_PARTS: Final = 10_000
_LONGEST_BOUNDARY: Final = 200
#: Bytes of a form beside its field `request`: boundaries, headers, further fields.
_FORM_BYTES: Final = 1 << 16


class BadForm(ValueError):
    """A form cannot be read. Hint: the message says what to send."""


class Form:
    """A form whose field `request` was read; its files are still to come."""

    def __init__(self, request: bytes, parts: Iterator[tuple[str, str, IO[bytes]]]) -> None:
        """Keep both."""
        self.request = request
        self._parts = parts

    def files(self) -> Iterator[tuple[str, IO[bytes]]]:
        """(field, content) of each file, in their order; each must be read before the next."""
        for kind, name, content in self._parts:
            if kind == FILE:
                yield name, content


def read_form(http: HttpRequest, *, most: int, body: IO[bytes] | None = None) -> Form:
    """Read the field `request`, of `most` bytes at the most; raises `BadForm`.

    `body` is the request's body if it was read already.
    """
    source = cast("IO[bytes]", http) if body is None else body
    if http.content_type == "multipart/form-data":
        return _multipart(http, source, most)
    if content_length(http) > most:
        raise BadForm(_too_long(most))
    return _urlencoded(_all(source, most))


def spool(http: HttpRequest, kept: IO[bytes], *, most: int) -> None:
    """Write the body to a file, of which `most` bytes may be the field; raises `BadForm`."""
    if content_length(http) > most + _FORM_BYTES:
        raise BadForm(_too_long(most))
    copyfileobj(cast("IO[bytes]", http), kept, _CHUNK)
    kept.seek(0)


def content_length(http: HttpRequest) -> int:
    """Return the length that the request states; 0 without one."""
    length = str(http.META.get("CONTENT_LENGTH") or "0")
    return int(length) if length.isascii() and length.isdecimal() else 0


def _urlencoded(body: bytes) -> Form:
    if body.lstrip()[:1] == b"<":
        return Form(body, iter(()))
    field = _field(body)
    if field is None:
        msg = "There is no field request. Hint: send the request as the form field of this name."
        raise BadForm(msg)
    return Form(field, iter(()))


def _too_long(most: int) -> str:
    return f"The request is longer than {most >> 20} MB. Hint: submit it in several batches."


def _all(source: IO[bytes], most: int) -> bytes:
    body = bytearray()
    while chunk := source.read(_CHUNK):
        body += chunk
        if len(body) > most:
            raise BadForm(_too_long(most))
    return bytes(body)


def _field(body: bytes) -> bytes | None:
    """The field `request` of an urlencoded form; None if it has none."""
    wanted = f"{_FIELD}=".encode()
    start = 0
    while start <= len(body):
        end = body.find(b"&", start)
        end = len(body) if end < 0 else end
        if body.startswith(wanted, start):
            return _unquoted(body, start + len(wanted), end)
        start = end + 1
    return None


def _unquoted(body: bytes, start: int, end: int) -> bytes:
    """What a part of a form says; piece by piece, for the standard library cuts at each escape."""
    said = bytearray()
    while start < end:
        stop = min(start + _CHUNK, end)
        if stop < end:
            cut = body.rfind(b"%", stop - 2, stop)
            stop = stop if cut < 0 else cut
        said += unquote_to_bytes(body[start:stop].replace(b"+", b" "))
        start = stop
    return bytes(said)


def _multipart(http: HttpRequest, source: IO[bytes], most: int) -> Form:
    boundary = http.content_params.get("boundary", "") if http.content_params else ""
    if not 0 < len(boundary) <= _LONGEST_BOUNDARY or not boundary.isascii():
        msg = "The form does not say how its parts are parted. Hint: let a library write the form."
        raise BadForm(msg)
    parts = _parts(source, boundary.encode())
    for kind, name, content in parts:
        if name == _FIELD and kind != FILE:
            return Form(_all(content, most), parts)
        if kind == FILE:
            break
    msg = "There is no field request before the files. Hint: send the field request first."
    raise BadForm(msg)


def _parts(source: IO[bytes], boundary: bytes) -> Iterator[tuple[str, str, IO[bytes]]]:
    """(kind, name, content) of each part; raises `BadForm`."""
    stream = LazyStream(ChunkIter(cast("Any", source), _CHUNK))
    try:
        for count, (kind, head, content) in enumerate(Parser(stream, boundary)):
            if count > _MOST_PARTS:
                msg = f"The form has more than {_MOST_PARTS} parts. Hint: send less files at once."
                raise BadForm(msg)
            said = cast("Any", head).get("content-disposition")
            name = said[1].get("name", "") if said else ""
            yield kind, name.decode() if isinstance(name, bytes) else name, cast("Any", content)
    except (MultiPartParserError, SuspiciousOperation, UnicodeDecodeError) as error:
        msg = f"The form cannot be read: {error}. Hint: let a library write it."
        raise BadForm(msg) from error
