"""The uploads face: a plain WSGI function that receives output files.

It runs beside Django in the same server process and uses no database: it checks the grant of an
upload, hashes the stream, and renames the finished file.  Status -1 in a reply makes the client
discard finished work (PROTOCOL trap 7), so it is used only for permanent errors.  The status of all
other errors, including unexpected errors, is 1, and the client retries.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterable
from time import monotonic
from typing import TYPE_CHECKING, Final

from django.conf import settings

from scheduler import metrics, signing, storage
from scheduler.boinc.plain import refuse
from scheduler.boinc.size_queries import SizeQueries
from scheduler.boinc.wire import uploads
from scheduler.boinc.wire.uploads import BadUpload, CutShort, SizeQuery, UploadReply, UploadRequest
from scheduler.metrics import UploadOutcome
from scheduler.storage import Upload

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

logger = logging.getLogger(__name__)

_CHUNK: Final = 1 << 18
#: The maximum number of bytes read from a refused body, so that the client reads the reply before
#: the connection is closed.
_DRAIN_BYTES: Final = 1 << 20
_FULL_DISK: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_STOPPED: Final = UploadReply.later("File uploads are temporarily disabled")
_DONE: Final = UploadReply.done()
_TOO_MANY_QUERIES: Final = UploadReply.later("Too many size queries from your address")
_OUT_OF_SPACE: Final = UploadReply.later("Server is out of disk space")
_NO_SPACE_LEFT: Final = UploadReply.later("No space left on server")
_SERVER_ERROR: Final = UploadReply.later("Server error")
_WRITE_FAILED: Final = UploadReply.later("Can't write file")
_KEY_UNKNOWN: Final = UploadReply.later("Upload key is unknown at present")
#: The outcomes of replies without data of their own; `_outcome` derives the others.
_OUTCOMES: Final = {
    _DONE: UploadOutcome.RECEIVED,
    _STOPPED: UploadOutcome.STOPPED,
    _TOO_MANY_QUERIES: UploadOutcome.THROTTLED,
    _OUT_OF_SPACE: UploadOutcome.DISK_FULL,
    _NO_SPACE_LEFT: UploadOutcome.DISK_FULL,
    _SERVER_ERROR: UploadOutcome.ERROR,
    _WRITE_FAILED: UploadOutcome.ERROR,
    _KEY_UNKNOWN: UploadOutcome.ERROR,
}
#: The minimum time between two log events of a process about a full disk.
_DISK_FULL_LOG_SECONDS: Final = 60.0

_size_queries = SizeQueries()


def upload_app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Receive an upload, or return the size of a partial upload (PROTOCOL 3.2, 3.3)."""
    if environ["REQUEST_METHOD"] != "POST":
        return refuse(environ, start_response, "405 Method Not Allowed", ("Allow", "POST"))
    body = _Body(environ)
    try:
        reply = _STOPPED if storage.uploads_stopped() else _answer(body, environ)
        if body.remaining:
            body.drain(_DRAIN_BYTES)
    except Exception:
        logger.exception("upload_failed")
        reply = _SERVER_ERROR
    metrics.UPLOADS[_outcome(reply)].inc()
    metrics.UPLOAD_BYTES.inc(body.received)
    data = uploads.encode_reply(reply)
    start_response("200 OK", [("Content-Type", "text/xml"), ("Content-Length", str(len(data)))])
    return [data]


def _outcome(reply: UploadReply) -> UploadOutcome:
    if reply in _OUTCOMES:
        return _OUTCOMES[reply]
    if reply.file_size is not None:
        return UploadOutcome.SIZE_QUERY
    return UploadOutcome.REJECTED if reply.status < 0 else UploadOutcome.RETRY


class _Body:
    """The body of a request.

    `remaining` is the number of bytes that have not been read yet, and `received` of those that
    have been.
    """

    __slots__ = ("_input", "received", "remaining")

    def __init__(self, environ: WSGIEnvironment) -> None:
        self._input = environ["wsgi.input"]
        length = environ.get("CONTENT_LENGTH") or "0"
        self.remaining = int(length) if length.isdecimal() else 0
        self.received = 0

    def read(self, limit: int) -> bytes:
        """Return up to ``limit`` bytes.

        Returns b"" at the end of the body, or if the client has disconnected.
        """
        size = min(limit, self.remaining)
        if size <= 0:
            return b""
        try:
            chunk: bytes = self._input.read(size)
        except OSError:
            chunk = b""
        self.received += len(chunk)
        self.remaining = self.remaining - len(chunk) if chunk else 0
        return chunk

    def drain(self, limit: int) -> None:
        """Read and discard up to ``limit`` bytes."""
        while limit > 0 and (chunk := self.read(min(_CHUNK, limit))):
            limit -= len(chunk)


def _answer(body: _Body, environ: WSGIEnvironment) -> UploadReply:
    try:
        request, first = _read_header(body)
        if isinstance(request, UploadRequest):
            return _check(request) or _receive(request, first, body)
        # Stock clients send no grant with a size query, so it is open to anyone, at a limited rate.
        limit = settings.PROJECT.size_queries_per_second
        if not _size_queries.admit(environ.get("REMOTE_ADDR", ""), per_second=limit):
            return _TOO_MANY_QUERIES
        return _size(request.name)
    except (BadUpload, storage.BadFileName) as error:
        message = str(error).partition("\n")[0]
        cut_short = isinstance(error, CutShort)
        return UploadReply.later(message) if cut_short else UploadReply.never(message)
    except storage.UploadLocked:
        return UploadReply.later("File is locked by another upload")


def _read_header(body: _Body) -> tuple[UploadRequest | SizeQuery, bytes]:
    """Return the request, and the bytes of the uploaded file that were read with the header."""
    head = body.read(uploads.MAX_HEADER_BYTES)
    while (decoded := uploads.decode_request(head, ended=not body.remaining)) is None:
        head += body.read(uploads.MAX_HEADER_BYTES)
    request, start = decoded
    return request, head[start:]


def _size(name: str) -> UploadReply:
    upload = storage.upload_size(name)
    if upload.finished:
        return UploadReply.size(upload.nbytes)
    if not storage.has_room_for(0):
        return _OUT_OF_SPACE
    # Report one byte less than the size of the partial file: a client that receives the full size
    # treats the file as uploaded, but after a crash an unfinished file may have all its bytes.
    return UploadReply.size(max(0, upload.nbytes - 1))


def _check(request: UploadRequest) -> UploadReply | None:
    """Check an upload's name, grant and size before its body is read.

    Returns None if the upload may begin, or a temporary refusal if the grant's key is unknown or
    revoked.  Raises `BadFileName` or `BadUpload` if the upload must be refused permanently.
    """
    storage.check_name(request.name)
    if request.grant is None:
        raise BadUpload("missing signature")
    if request.max_nbytes is None:
        raise BadUpload("missing max_nbytes")
    grant = signing.check_upload_grant(request.name, request.max_nbytes, request.grant)
    if grant is signing.Grant.UNKNOWN_KEY:
        # An operator can restore the key, so the client must retry.
        logger.error("upload_grant_key_unknown", extra={"upload": request.name})
        return _KEY_UNKNOWN
    if grant is signing.Grant.REVOKED:
        # The refusal is temporary, because an operator may make the key valid again.
        logger.warning("upload_grant_revoked", extra={"upload": request.name})
        return UploadReply.later("Upload key is revoked")
    if grant is signing.Grant.BAD:
        raise BadUpload("invalid signature")
    if request.nbytes < 0 or request.offset < 0:
        raise BadUpload("nbytes or offset is negative")
    if request.nbytes > request.max_nbytes:
        size, limit = request.nbytes / 1024, request.max_nbytes / 1024
        raise BadUpload(f"file size ({size:.1f} KB) exceeds limit ({limit:.1f} KB)")
    return None


def _receive(request: UploadRequest, first: bytes, body: _Body) -> UploadReply:
    """Write an upload to disk; a repeat of a finished upload is discarded and acknowledged."""
    expected = request.nbytes - request.offset
    try:
        if expected > 0 and not storage.has_room_for(expected):
            _log_disk_full(request.name)
            return _OUT_OF_SPACE
        if request.offset == 0 and len(first) >= expected:
            storage.put_upload(request.name, first[:expected], md5=request.md5)
        else:
            return _append(request, first, body)
    except storage.UploadFinished:
        body.drain(max(0, expected))
    except storage.UploadGap as gap:
        return UploadReply.later(f"length of file {gap} bytes < offset {request.offset} bytes")
    except storage.DigestMismatch as mismatch:
        logger.warning("upload_digest_mismatch", extra={"upload": request.name})
        return UploadReply.later(str(mismatch))
    except OSError as error:
        if error.errno in _FULL_DISK:
            _log_disk_full(request.name)
            return _NO_SPACE_LEFT
        logger.exception("upload_write_failed", extra={"upload": request.name})
        return _WRITE_FAILED
    return _DONE


def _log_disk_full(name: str) -> None:
    """Log that the disk is full, at most once a minute, because every client keeps retrying."""
    global _disk_full_logged_at  # noqa: PLW0603 - one per process
    if monotonic() - _disk_full_logged_at >= _DISK_FULL_LOG_SECONDS:
        _disk_full_logged_at = monotonic()
        logger.error("upload_disk_full", extra={"upload": name})


_disk_full_logged_at = -_DISK_FULL_LOG_SECONDS


def _append(request: UploadRequest, first: bytes, body: _Body) -> UploadReply:
    with storage.begin_upload(request.name, request.offset) as upload:
        if not _stream(upload, request.nbytes - request.offset, first, body):
            return UploadReply.later(
                f"Upload is incomplete: {upload.nbytes} of {request.nbytes} bytes"
            )
        upload.finish(md5=request.md5)
    return _DONE


def _stream(upload: Upload, expected: int, first: bytes, body: _Body) -> bool:
    """Write ``expected`` bytes from `first` and the body; return whether all bytes arrived."""
    chunk = first[: max(0, expected)] or body.read(min(_CHUNK, expected))
    while chunk:
        upload.write(chunk)
        expected -= len(chunk)
        chunk = body.read(min(_CHUNK, expected))
    return expected == 0
