"""Counts HTTP requests by the part of the server, the status and the duration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from scheduler import metrics
from scheduler.boinc.rules import addresses
from scheduler.metrics import RequestKind

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

#: The part of the server by the beginning of the path; other paths are those of web pages.
KINDS = (
    (addresses.SCHEDULER, RequestKind.SCHEDULER),
    (addresses.UPLOADS, RequestKind.UPLOAD),
    (addresses.DOWNLOADS, RequestKind.DOWNLOAD),
    ("/api/", RequestKind.API),
    ("/admin", RequestKind.ADMIN),
)


def kind_of(path: str) -> RequestKind:
    """Return the part of the server to which a path belongs.

    >>> kind_of("/api/v1/batches"), kind_of("/get_project_config.php")
    (<RequestKind.API: 'api'>, <RequestKind.WEB: 'web'>)
    """
    for prefix, kind in KINDS:
        if path.startswith(prefix):
            return kind
    return RequestKind.WEB


def counted(
    app: WSGIApplication, environ: WSGIEnvironment, start_response: StartResponse
) -> Iterable[bytes]:
    """Answer a request by `app`, whose PATH_INFO is normalized, and count it.

    The duration is the time until `app` returns; a streamed body is not included.
    """
    kind = kind_of(environ["PATH_INFO"])
    timed = metrics.REQUEST_SECONDS.get(kind)
    began = perf_counter() if timed else 0.0
    try:
        reply = app(environ, _counting(start_response, kind, environ.get("REQUEST_METHOD", "")))
    except Exception:
        metrics.REQUESTS[kind, "5xx"].inc()
        raise
    if timed:
        timed.observe(perf_counter() - began)
    return reply


def _counting(start_response: StartResponse, kind: RequestKind, method: str) -> Callable[..., Any]:
    def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:  # noqa: ANN401 - WSGI's
        counter = metrics.REQUESTS.get((kind, f"{status[0]}xx"))
        if counter is not None:
            counter.inc()
        if kind is RequestKind.DOWNLOAD and status[0] == "2" and method != "HEAD":
            length = next((value for name, value in headers if name == "Content-Length"), "0")
            metrics.DOWNLOAD_BYTES.inc(int(length))
        return start_response(status, headers, *rest)

    return start
