"""Plain-text responses of the WSGI functions that run beside Django."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment


def refuse(
    environ: WSGIEnvironment,
    start_response: StartResponse,
    status: str,
    *headers: tuple[str, str],
) -> list[bytes]:
    """Answer with a status, whose text is also the body."""
    data = status.encode() + b"\n"
    about = [("Content-Type", "text/plain"), ("Content-Length", str(len(data)))]
    start_response(status, [*about, *headers])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [data]
