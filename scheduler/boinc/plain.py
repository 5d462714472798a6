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
    """Start a plain-text response and return the body, which is the text of the status."""
    data = status.encode() + b"\n"
    about = [("Content-Type", "text/plain"), ("Content-Length", str(len(data)))]
    start_response(status, [*about, *headers])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [data]
