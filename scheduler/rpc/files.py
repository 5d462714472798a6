"""The files face: uploads and downloads as two plain WSGI functions.

They stand beside Django in the same server process and touch no database: an upload is a grant
that is checked, a stream that is hashed and a file that is renamed. What is answered follows one
rule (PROTOCOL trap 7): status -1 makes the client throw finished work away, so it is only for
what can never heal; all the rest, and every surprise, is status 1, and the client comes again.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from email.utils import formatdate
from typing import TYPE_CHECKING, BinaryIO, Final

from scheduler import signing, storage
from scheduler.wire import uploads
from scheduler.wire.uploads import BadUpload, CutShort, SizeQuery, UploadReply, UploadRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from wsgiref.types import StartResponse, WSGIEnvironment

    from scheduler.storage import Upload

logger = logging.getLogger(__name__)

_CHUNK: Final = 1 << 18
#: How much of a refused body is read, so that the client listens before the connection closes.
_DRAIN_BYTES: Final = 1 << 20
_FULL_DISK: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_STOPPED: Final = UploadReply.later("File uploads are temporarily disabled")
_OUT_OF_SPACE: Final = "Server is out of disk space"
_RANGE: Final = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")


class _UnknownKey(Exception):
    """The grant is by a key that is not here; the argument is the upload's name."""


# Uploads


def upload_app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Take an upload, or say how much of one is here (PROTOCOL 3.2, 3.3)."""
    if environ["REQUEST_METHOD"] != "POST":
        return _refuse(environ, start_response, "405 Method Not Allowed", ("Allow", "POST"))
    body = _Body(environ)
    try:
        reply = _STOPPED if storage.uploads_stopped() else _answer(body)
        if body.remaining:
            body.drain(_DRAIN_BYTES)
    except Exception:
        logger.exception("upload_failed")
        reply = UploadReply.later("Server error")
    data = uploads.encode_reply(reply)
    start_response("200 OK", [("Content-Type", "text/xml"), ("Content-Length", str(len(data)))])
    return [data]


class _Body:
    """The body of a request, never read past its end."""

    __slots__ = ("_input", "remaining")

    def __init__(self, environ: WSGIEnvironment) -> None:
        self._input = environ["wsgi.input"]
        length = environ.get("CONTENT_LENGTH") or "0"
        self.remaining = int(length) if length.isdecimal() else 0

    def read(self, limit: int) -> bytes:
        """Return up to ``limit`` bytes, none at the end or when the client is gone."""
        want = min(limit, self.remaining)
        if want <= 0:
            return b""
        try:
            chunk: bytes = self._input.read(want)
        except OSError:
            chunk = b""
        self.remaining = self.remaining - len(chunk) if chunk else 0
        return chunk

    def drain(self, limit: int) -> None:
        """Read and forget up to ``limit`` bytes."""
        while limit > 0 and (chunk := self.read(min(_CHUNK, limit))):
            limit -= len(chunk)


def _answer(body: _Body) -> UploadReply:
    try:
        request, first = _read_header(body)
        if isinstance(request, UploadRequest):
            _judge(request)
            return _receive(request, first, body)
        return _size(request.name)
    except (BadUpload, storage.BadFileName) as error:
        message = str(error).partition("\n")[0]
        cut_short = isinstance(error, CutShort)
        return UploadReply.later(message) if cut_short else UploadReply.never(message)
    except _UnknownKey as error:
        # An operator can put the key back, so the client must not give up.
        logger.error("upload_grant_key_unknown", extra={"upload": str(error)})  # noqa: TRY400 - a trace tells no more
        return UploadReply.later("Upload key is unknown at present")
    except storage.UploadLocked:
        return UploadReply.later("File is locked by another upload")


def _read_header(body: _Body) -> tuple[UploadRequest | SizeQuery, bytes]:
    """Return the request and the first bytes of its file."""
    head = body.read(uploads.MAX_HEADER_BYTES)
    while (found := uploads.decode_request(head, ended=not body.remaining)) is None:
        head += body.read(uploads.MAX_HEADER_BYTES)
    request, start = found
    return request, head[start:]


def _size(name: str) -> UploadReply:
    found = storage.upload_size(name)
    if found.finished:
        return UploadReply.size(found.nbytes)
    if not storage.has_room_for(0):
        return UploadReply.later(_OUT_OF_SPACE)
    # One byte less than there is: a client that reads the whole length takes its file for
    # delivered, while a crash may have left us every byte of it and not the final name.
    return UploadReply.size(max(0, found.nbytes - 1))


def _judge(request: UploadRequest) -> None:
    """Raise unless an upload is welcome; none of its bytes have been read yet."""
    storage.check_name(request.name)
    if request.grant is None:
        raise BadUpload("missing signature")
    if request.max_nbytes is None:
        raise BadUpload("missing max_nbytes")
    grant = signing.check_upload_grant(request.name, request.max_nbytes, request.grant)
    if grant is signing.Grant.UNKNOWN_KEY:
        raise _UnknownKey(request.name)
    if grant is signing.Grant.BAD:
        raise BadUpload("invalid signature")
    if request.nbytes < 0 or request.offset < 0:
        raise BadUpload("nbytes or offset is negative")
    if request.nbytes > request.max_nbytes:
        size, limit = request.nbytes / 1024, request.max_nbytes / 1024
        message = f"file size ({size:.1f} KB) exceeds limit ({limit:.1f} KB)"
        raise BadUpload(message)


def _receive(request: UploadRequest, first: bytes, body: _Body) -> UploadReply:
    """Write what comes; a repeat of a finished upload is read, forgotten and welcome."""
    expected = request.nbytes - request.offset
    try:
        if expected > 0 and not storage.has_room_for(expected):
            return UploadReply.later(_OUT_OF_SPACE)
        with storage.begin_upload(request.name, request.offset) as upload:
            if not _stream(upload, expected, first, body):
                return UploadReply.later(
                    f"Upload is incomplete: {upload.nbytes} of {request.nbytes} bytes"
                )
            upload.finish(md5=request.md5)
    except storage.UploadFinished:
        body.drain(max(0, expected))
    except storage.UploadGap as gap:
        return UploadReply.later(f"length of file {gap} bytes < offset {request.offset} bytes")
    except storage.DigestMismatch as mismatch:
        logger.warning("upload_md5_mismatch", extra={"upload": request.name})
        return UploadReply.later(str(mismatch))
    except OSError as error:
        logger.exception("upload_write_failed", extra={"upload": request.name})
        full = error.errno in _FULL_DISK
        return UploadReply.later("No space left on server" if full else "Can't write file")
    return UploadReply.done()


def _stream(upload: Upload, expected: int, first: bytes, body: _Body) -> bool:
    """Write ``expected`` bytes; False if the body ends before that."""
    chunk = first[: max(0, expected)] or body.read(min(_CHUNK, expected))
    while chunk:
        upload.write(chunk)
        expected -= len(chunk)
        chunk = body.read(min(_CHUNK, expected))
    return expected == 0


# Downloads


def download_app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Give out ``.../<fan>/<name>``, whole or a range of it (RFC 9110, 14).

    A 404 kills every result that needs the file, so it is only said of files that are not there;
    a file that cannot be read today is a 503, and the client comes again.
    """
    if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
        return _refuse(environ, start_response, "405 Method Not Allowed", ("Allow", "GET, HEAD"))
    try:
        file, digest = _open(environ.get("PATH_INFO", ""))
    except (FileNotFoundError, storage.BadFileName, UnicodeError):
        return _refuse(environ, start_response, "404 Not Found")
    except OSError:
        logger.exception("download_failed", extra={"path": environ.get("PATH_INFO")})
        return _refuse(environ, start_response, "503 Service Unavailable")
    found = os.fstat(file.fileno())
    tag = f'"{digest.sha256}"' if digest else f'"{found.st_size:x}-{found.st_mtime_ns:x}"'
    headers = [
        ("Accept-Ranges", "bytes"),
        ("ETag", tag),
        ("Last-Modified", formatdate(found.st_mtime, usegmt=True)),
        ("Cache-Control", "public, max-age=31536000, immutable"),
    ]
    if tag in environ.get("HTTP_IF_NONE_MATCH", ""):
        file.close()
        start_response("304 Not Modified", headers)
        return []
    return _give(environ, start_response, headers, file)


def _open(path: str) -> tuple[BinaryIO, storage.Digest | None]:
    """Open what a path names; FileNotFoundError unless name and folder fit."""
    _, fan, name = ("//" + path.encode("latin-1").decode()).rsplit("/", 2)
    storage.check_name(name)
    if fan != storage.fan_out(name):
        raise FileNotFoundError(path)
    return storage.open_download(name)


def _give(
    environ: WSGIEnvironment,
    start_response: StartResponse,
    headers: list[tuple[str, str]],
    file: BinaryIO,
) -> Iterable[bytes]:
    size = os.fstat(file.fileno()).st_size
    wanted = _wanted_range(environ, headers, size)
    if wanted is not None and not wanted:
        file.close()
        unsatisfiable = ("Content-Range", f"bytes */{size}")
        return _refuse(environ, start_response, "416 Range Not Satisfiable", unsatisfiable)
    given = wanted or range(size)
    headers.append(("Content-Type", "application/octet-stream"))
    headers.append(("Content-Length", str(len(given))))
    if wanted:
        headers.append(("Content-Range", f"bytes {given.start}-{given.stop - 1}/{size}"))
    start_response("206 Partial Content" if wanted else "200 OK", headers)
    if environ["REQUEST_METHOD"] == "HEAD":
        file.close()
        return []
    file.seek(given.start)
    if len(given) <= _CHUNK:
        with file:
            return [file.read(len(given))]
    if "wsgi.file_wrapper" in environ and given.stop == size:
        wrapped: Iterable[bytes] = environ["wsgi.file_wrapper"](file, _CHUNK)
        return wrapped
    return _chunks(file, len(given))


def _wanted_range(
    environ: WSGIEnvironment, headers: list[tuple[str, str]], size: int
) -> range | None:
    """Return the one range that was asked for, empty if it cannot be had, None for the whole.

    What is not understood, several ranges among it, is answered with the whole file, as is a
    range of a file that has changed (If-Range).
    """
    match = _RANGE.fullmatch(environ.get("HTTP_RANGE", ""))
    condition = environ.get("HTTP_IF_RANGE")
    if not match or (condition and condition not in {value for _, value in headers}):
        return None
    first, last = match.groups()
    if first:
        start, stop = int(first), min(int(last) + 1 if last else size, size)
        if last and int(last) < start:
            return None
        return range(start, stop) if start < size else range(0)
    if last:
        return range(max(0, size - int(last)), size)
    return None


def _chunks(file: BinaryIO, nbytes: int) -> Iterator[bytes]:
    with file:
        while nbytes > 0 and (chunk := file.read(min(_CHUNK, nbytes))):
            nbytes -= len(chunk)
            yield chunk


def _refuse(
    environ: WSGIEnvironment,
    start_response: StartResponse,
    status: str,
    *headers: tuple[str, str],
) -> list[bytes]:
    data = status.encode() + b"\n"
    about = [("Content-Type", "text/plain"), ("Content-Length", str(len(data)))]
    start_response(status, [*about, *headers])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [data]
