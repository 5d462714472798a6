"""Serves downloads from the object store, by redirect or through this process."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final

from scheduler import storage
from scheduler.boinc.plain import refuse

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

logger = logging.getLogger(__name__)

#: The size of a read from a file or the store.
CHUNK_BYTES: Final = 1 << 18
#: The Retry-After header while the store is unreachable; seconds.
_RETRY_AFTER: Final = "60"
CONTENT_TYPE: Final = ("Content-Type", "application/octet-stream")


def serve_from_store(
    environ: WSGIEnvironment, start_response: StartResponse, name: str
) -> Iterable[bytes]:
    """Serve a file from the object store.

    The status is 404 if no store is configured or the store reports that the file does not exist,
    and 503 if the store cannot be reached.  Clients keep the server's own URL, which is permanent.
    The signed URL expires, so a new URL is signed for each request (docs/decisions/0021).
    """
    try:
        store = storage.store()
        if store is None:
            return refuse(environ, start_response, "404 Not Found")
        if store.config.redirects:
            signed_url = store.url(name, environ["REQUEST_METHOD"])
            headers = [("Location", signed_url), ("Cache-Control", "no-store")]
            start_response("302 Found", [*headers, CONTENT_TYPE, ("Content-Length", "0")])
            return []
        return _stream(environ, start_response, store, name)
    except FileNotFoundError:
        return refuse(environ, start_response, "404 Not Found")
    except OSError as error:
        logger.error(  # noqa: TRY400  no traceback, because every request logs this
            "download_failed", extra={"path": environ.get("PATH_INFO"), "reason": str(error)}
        )
        retry_after = ("Retry-After", _RETRY_AFTER)
        return refuse(environ, start_response, "503 Service Unavailable", retry_after)


def _stream(
    environ: WSGIEnvironment, start_response: StartResponse, store: storage.Store, name: str
) -> Iterable[bytes]:
    """Stream a file, or the requested range, through this process; the store parses the range."""
    requested_range = environ.get("HTTP_RANGE")
    known_tags, condition = environ.get("HTTP_IF_NONE_MATCH", ""), environ.get("HTTP_IF_RANGE")
    is_head = environ["REQUEST_METHOD"] == "HEAD"
    if known_tags or condition or is_head:
        stored = store.look_up(name)
        tag = _tag(stored)
        if tag in known_tags:
            start_response("304 Not Modified", _headers(stored))
            return []
        if is_head:
            length = ("Content-Length", str(stored.nbytes))
            start_response("200 OK", [*_headers(stored), CONTENT_TYPE, length])
            return []
        if condition and condition not in {value for _, value in _headers(stored)}:
            requested_range = None
    try:
        stream, stored, content_range = store.open(name, requested_range)
    except ValueError:
        unsatisfiable = ("Content-Range", f"bytes */{store.look_up(name).nbytes}")
        return refuse(environ, start_response, "416 Range Not Satisfiable", unsatisfiable)
    headers = [*_headers(stored), CONTENT_TYPE]
    if content_range:
        first, _, last = content_range.partition(" ")[2].partition("/")[0].partition("-")
        headers.append(("Content-Range", content_range))
        headers.append(("Content-Length", str(int(last) - int(first) + 1)))
    else:
        headers.append(("Content-Length", str(stored.nbytes)))
    start_response("206 Partial Content" if content_range else "200 OK", headers)
    return _chunks(stream)


def _headers(stored: storage.Stored) -> list[tuple[str, str]]:
    return file_headers(_tag(stored), stored.changed_at)


def file_headers(tag: str, changed_at: float) -> list[tuple[str, str]]:
    """Return the headers of a published file, whose content never changes."""
    return [
        ("Accept-Ranges", "bytes"),
        ("ETag", tag),
        ("Last-Modified", formatdate(changed_at, usegmt=True)),
        ("Cache-Control", "public, max-age=31536000, immutable"),
    ]


def _tag(stored: storage.Stored) -> str:
    if stored.digest is not None:
        return f'"{stored.digest.sha256}"'
    return f'"{stored.nbytes:x}-{int(stored.changed_at):x}"'


def _chunks(stream: Any) -> Iterator[bytes]:  # noqa: ANN401  botocore's stream has no types
    """Yield the stream in chunks; if the stream ends early, the client resumes the download."""
    with stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk
