"""The downloads face: a plain WSGI function that serves published files."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Final

from scheduler import storage
from scheduler.boinc.plain import refuse
from scheduler.boinc.store_downloads import (
    CHUNK_BYTES,
    CONTENT_TYPE,
    file_headers,
    serve_from_store,
)

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

logger = logging.getLogger(__name__)

_RANGE: Final = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")


def download_app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Serve the file ``.../<fan>/<name>``, or a range of it (RFC 9110, 14).

    A 404 makes the client fail every result that needs the file, so it is returned only for a file
    that does not exist.  If the file cannot be read at the moment, the status is 503, and the
    client retries.  A file that is not on disk may be in the object store (`store_downloads`).
    """
    if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
        return refuse(environ, start_response, "405 Method Not Allowed", ("Allow", "GET, HEAD"))
    try:
        name = _name_of(environ.get("PATH_INFO", ""))
    except (LookupError, storage.BadFileName, UnicodeError):
        return refuse(environ, start_response, "404 Not Found")
    try:
        file, digest = storage.open_download(name)
    except FileNotFoundError:
        return serve_from_store(environ, start_response, name)
    except OSError:
        logger.exception("download_failed", extra={"path": environ.get("PATH_INFO")})
        return refuse(environ, start_response, "503 Service Unavailable")
    stat = os.fstat(file.fileno())
    tag = f'"{digest.sha256}"' if digest else f'"{stat.st_size:x}-{stat.st_mtime_ns:x}"'
    headers = file_headers(tag, stat.st_mtime)
    if tag in environ.get("HTTP_IF_NONE_MATCH", ""):
        file.close()
        start_response("304 Not Modified", headers)
        return []
    return _serve(environ, start_response, headers, file)


def _name_of(path: str) -> str:
    """Return the file name of a path.

    Raises LookupError if a file of this name belongs in another folder.
    """
    _, fan, name = ("//" + path.encode("latin-1").decode()).rsplit("/", 2)
    storage.check_name(name)
    if fan != storage.fan_out(name):
        raise LookupError(path)
    return name


def _serve(
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
        return refuse(environ, start_response, "416 Range Not Satisfiable", unsatisfiable)
    selected = wanted or range(size)
    headers += [CONTENT_TYPE, ("Content-Length", str(len(selected)))]
    if wanted:
        headers.append(("Content-Range", f"bytes {selected.start}-{selected.stop - 1}/{size}"))
    start_response("206 Partial Content" if wanted else "200 OK", headers)
    if environ["REQUEST_METHOD"] == "HEAD":
        file.close()
        return []
    file.seek(selected.start)
    if len(selected) <= CHUNK_BYTES:
        with file:
            return [file.read(len(selected))]
    if "wsgi.file_wrapper" in environ and selected.stop == size:
        wrapped: Iterable[bytes] = environ["wsgi.file_wrapper"](file, CHUNK_BYTES)
        return wrapped
    return _chunks(file, len(selected))


def _wanted_range(
    environ: WSGIEnvironment, headers: list[tuple[str, str]], size: int
) -> range | None:
    """Return the byte range to send, or None to send the whole file.

    The range is empty if the requested range cannot be satisfied.  The whole file is also sent if
    the header cannot be parsed or contains several ranges, or if the file has changed (If-Range).
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
        while nbytes > 0 and (chunk := file.read(min(CHUNK_BYTES, nbytes))):
            nbytes -= len(chunk)
            yield chunk
