"""Downloads that live in the store: by a signed address, or through us."""

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

_CHUNK: Final = 1 << 18
#: When a client comes again while the store is away; seconds.
_RETRY_AFTER: Final = "60"
_TYPE: Final = ("Content-Type", "application/octet-stream")


def give_from_store(
    environ: WSGIEnvironment, start_response: StartResponse, name: str
) -> Iterable[bytes]:
    """Answer for a file that is not on the disk; 404 where there is no store either.

    The address that clients know is ours and lasts; the signed one is made anew at each request,
    for it ends (docs/decisions/0021).
    """
    try:
        store = storage.store()
        if store is None:
            return refuse(environ, start_response, "404 Not Found")
        if store.config.redirects:
            where = store.url(name, environ["REQUEST_METHOD"])
            headers = [
                ("Location", where),
                ("Cache-Control", "no-store"),
                _TYPE,
                ("Content-Length", "0"),
            ]
            start_response("302 Found", headers)
            return []
        return _give(environ, start_response, store, name)
    except FileNotFoundError:
        return refuse(environ, start_response, "404 Not Found")
    except OSError as error:
        logger.error(  # noqa: TRY400  it says all, and comes for each of many clients
            "download_failed", extra={"path": environ.get("PATH_INFO"), "reason": str(error)}
        )
        again = ("Retry-After", _RETRY_AFTER)
        return refuse(environ, start_response, "503 Service Unavailable", again)


def _give(
    environ: WSGIEnvironment, start_response: StartResponse, store: storage.Store, name: str
) -> Iterable[bytes]:
    """Give a file, or the range that the store makes of what is asked, through this process."""
    wanted = environ.get("HTTP_RANGE")
    known, condition = environ.get("HTTP_IF_NONE_MATCH", ""), environ.get("HTTP_IF_RANGE")
    is_head = environ["REQUEST_METHOD"] == "HEAD"
    if known or condition or is_head:
        found = store.look_up(name)
        tag = _tag(found)
        if tag in known:
            start_response("304 Not Modified", _headers(found))
            return []
        if is_head:
            length = ("Content-Length", str(found.nbytes))
            start_response("200 OK", [*_headers(found), _TYPE, length])
            return []
        if condition and condition not in {value for _, value in _headers(found)}:
            wanted = None
    try:
        stream, found, content_range = store.open(name, wanted)
    except ValueError:
        unsatisfiable = ("Content-Range", f"bytes */{store.look_up(name).nbytes}")
        return refuse(environ, start_response, "416 Range Not Satisfiable", unsatisfiable)
    headers = [*_headers(found), _TYPE]
    if content_range:
        first, _, last = content_range.partition(" ")[2].partition("/")[0].partition("-")
        headers.append(("Content-Range", content_range))
        headers.append(("Content-Length", str(int(last) - int(first) + 1)))
    else:
        headers.append(("Content-Length", str(found.nbytes)))
    start_response("206 Partial Content" if content_range else "200 OK", headers)
    return _chunks(stream)


def _headers(found: storage.Stored) -> list[tuple[str, str]]:
    return [
        ("Accept-Ranges", "bytes"),
        ("ETag", _tag(found)),
        ("Last-Modified", formatdate(found.changed_at, usegmt=True)),
        ("Cache-Control", "public, max-age=31536000, immutable"),
    ]


def _tag(found: storage.Stored) -> str:
    if found.digest is not None:
        return f'"{found.digest.sha256}"'
    return f'"{found.nbytes:x}-{int(found.changed_at):x}"'


def _chunks(stream: Any) -> Iterator[bytes]:  # noqa: ANN401  botocore's stream has no types
    """Hand on; if the store breaks off, so do we, and the client goes on from where it is."""
    with stream:
        while chunk := stream.read(_CHUNK):
            yield chunk
