"""Reads the forms of BOINC's submitters: the field `request`, followed by files.

BOINC's Python library sends the form urlencoded, the C++ library as multipart.  A body that is the
request itself, without a form, is also accepted.  Django's parser is not used, because it copies
every field twice into memory, and reads all files before the key can be checked.
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
_MAX_PARTS: Final = 10_000
_MAX_BOUNDARY_LENGTH: Final = 200
#: The maximum size of a form besides the field `request`: boundaries, headers, further fields.
_FORM_BYTES: Final = 1 << 16


class BadForm(ValueError):
    """A form cannot be read. Hint: send the form in the message."""


class Form:
    """A form whose field `request` has been read; `files` reads the files."""

    def __init__(self, request: bytes, parts: Iterator[tuple[str, str, IO[bytes]]]) -> None:
        self.request = request
        self._parts = parts

    def files(self) -> Iterator[tuple[str, IO[bytes]]]:
        """Yield (field name, content) of each file; read a content before the next file."""
        for kind, name, content in self._parts:
            if kind == FILE:
                yield name, content


def read_form(http: HttpRequest, *, max_bytes: int, body: IO[bytes] | None = None) -> Form:
    """Read the field `request` of at most `max_bytes`; raises `BadForm`.

    `body` is the body of the HTTP request if it has already been read.
    """
    source = cast("IO[bytes]", http) if body is None else body
    if http.content_type == "multipart/form-data":
        return _multipart(http, source, max_bytes)
    if content_length(http) > max_bytes:
        raise BadForm(_too_long(max_bytes))
    return _urlencoded(_all(source, max_bytes))


def spool(http: HttpRequest, file: IO[bytes], *, max_bytes: int) -> None:
    """Copy the body to a file and rewind it.

    Raises `BadForm` if the body is longer than `max_bytes` for the field `request` and
    `_FORM_BYTES` for the rest of the form.
    """
    if content_length(http) > max_bytes + _FORM_BYTES:
        raise BadForm(_too_long(max_bytes))
    copyfileobj(cast("IO[bytes]", http), file, _CHUNK)
    file.seek(0)


def content_length(http: HttpRequest) -> int:
    """Return the request's Content-Length, or 0 if it is missing or invalid."""
    length = str(http.META.get("CONTENT_LENGTH") or "0")
    return int(length) if length.isascii() and length.isdecimal() else 0


def _urlencoded(body: bytes) -> Form:
    if body.lstrip()[:1] == b"<":
        return Form(body, iter(()))
    field = _field(body)
    if field is None:
        msg = "The form has no field `request`. Hint: send the XML document in this field."
        raise BadForm(msg)
    return Form(field, iter(()))


def _too_long(max_bytes: int) -> str:
    return f"The request is longer than {max_bytes >> 20} MB. Hint: submit it in several batches."


def _all(source: IO[bytes], max_bytes: int) -> bytes:
    body = bytearray()
    while chunk := source.read(_CHUNK):
        body += chunk
        if len(body) > max_bytes:
            raise BadForm(_too_long(max_bytes))
    return bytes(body)


def _field(body: bytes) -> bytes | None:
    """Return the field `request` of a urlencoded form, or None if the form lacks it."""
    prefix = f"{_FIELD}=".encode()
    start = 0
    while start <= len(body):
        end = body.find(b"&", start)
        end = len(body) if end < 0 else end
        if body.startswith(prefix, start):
            return _unquoted(body, start + len(prefix), end)
        start = end + 1
    return None


def _unquoted(body: bytes, start: int, end: int) -> bytes:
    """Return the decoded bytes of a part of a urlencoded form.

    The part is decoded in chunks to limit memory, because `unquote_to_bytes` splits its input at
    each escape.
    """
    decoded = bytearray()
    while start < end:
        stop = min(start + _CHUNK, end)
        if stop < end:
            cut = body.rfind(b"%", stop - 2, stop)
            stop = stop if cut < 0 else cut
        decoded += unquote_to_bytes(body[start:stop].replace(b"+", b" "))
        start = stop
    return bytes(decoded)


def _multipart(http: HttpRequest, source: IO[bytes], max_bytes: int) -> Form:
    boundary = http.content_params.get("boundary", "") if http.content_params else ""
    if not 0 < len(boundary) <= _MAX_BOUNDARY_LENGTH or not boundary.isascii():
        msg = "The Content-Type has no valid boundary. Hint: create the form with a library."
        raise BadForm(msg)
    parts = _parts(source, boundary.encode())
    for kind, name, content in parts:
        if name == _FIELD and kind != FILE:
            return Form(_all(content, max_bytes), parts)
        if kind == FILE:
            break
    raise BadForm("The form has no field `request` before the files. Hint: send it first.")


def _parts(source: IO[bytes], boundary: bytes) -> Iterator[tuple[str, str, IO[bytes]]]:
    """Yield (kind, name, content) of each part; raises `BadForm`."""
    stream = LazyStream(ChunkIter(cast("Any", source), _CHUNK))
    try:
        for count, (kind, head, content) in enumerate(Parser(stream, boundary)):
            if count > _MAX_PARTS:
                msg = f"The form has more than {_MAX_PARTS} parts. Hint: send fewer files at once."
                raise BadForm(msg)
            disposition = cast("Any", head).get("content-disposition")
            name = disposition[1].get("name", "") if disposition else ""
            yield kind, name.decode() if isinstance(name, bytes) else name, cast("Any", content)
    except (MultiPartParserError, SuspiciousOperation, UnicodeDecodeError) as error:
        msg = f"The form cannot be read: {error}. Hint: create the form with a library."
        raise BadForm(msg) from error
