"""HTTP requests as bytes, and a function that answers them in process."""

from __future__ import annotations

import io
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import unquote_to_bytes

Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class RawRequest:
    """An HTTP request; `target` is the path and query of the request line."""

    method: bytes = b"GET"
    target: bytes = b"/"
    headers: tuple[Header, ...] = ()
    body: bytes = b""

    @classmethod
    def read(cls, text: bytes) -> RawRequest:
        """Parse a captured request, with LF or CRLF after each header line."""
        head, _, body = (
            text.partition(b"\r\n\r\n") if b"\r\n\r\n" in text else text.partition(b"\n\n")
        )
        first, *lines = head.replace(b"\r\n", b"\n").split(b"\n")
        method, target, *_ = [*first.split(b" "), b"/"]
        headers = [line.partition(b":") for line in lines if b":" in line]
        return cls(method, target, tuple((name, value.strip()) for name, _, value in headers), body)

    def header(self, name: bytes) -> bytes:
        """Return the value of a header, or b""."""
        for one, value in self.headers:
            if one.lower() == name.lower():
                return value
        return b""

    def with_header(self, name: bytes, value: bytes) -> RawRequest:
        """Return the request with one header set."""
        others = tuple(one for one in self.headers if one[0].lower() != name.lower())
        return RawRequest(self.method, self.target, (*others, (name, value)), self.body)

    def to_bytes(self, *, host: str = "127.0.0.1") -> bytes:
        """Return the bytes to send, with correct Host and Content-Length."""
        own = {b"host", b"content-length", b"connection", b"transfer-encoding"}
        lines = [b"%s %s HTTP/1.1" % (self.method, self.target), b"Host: %s" % host.encode()]
        lines += [b"%s: %s" % one for one in self.headers if one[0].lower() not in own]
        if self.body or self.method not in {b"GET", b"HEAD"}:
            lines.append(b"Content-Length: %d" % len(self.body))
        return b"\r\n".join(lines) + b"\r\n\r\n" + self.body

    def environ(self) -> dict[str, Any]:
        """Return the WSGI environment that Granian would create."""
        path, _, query = self.target.partition(b"?")
        environ: dict[str, Any] = {
            "REQUEST_METHOD": self.method.decode("latin-1"),
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
            "QUERY_STRING": query.decode("latin-1"),
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "8000",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(self.body),
            "wsgi.errors": io.StringIO(),
            "wsgi.multithread": False,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
            "HTTP_HOST": "127.0.0.1:8000",
        }
        for name, value in self.headers:
            key = name.decode("latin-1").upper().replace("-", "_")
            if key == "CONTENT_TYPE":
                environ[key] = value.decode("latin-1")
            elif key not in {"HOST", "CONTENT_LENGTH", "TRANSFER_ENCODING"}:
                environ[f"HTTP_{key}"] = value.decode("latin-1")
        environ["CONTENT_LENGTH"] = str(len(self.body))
        return environ


@dataclass(slots=True)
class RawReply:
    """A response; `fault` is the traceback of an exception, if there was one."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    fault: str = ""


@cache
def _django() -> Any:
    from django.core.handlers.wsgi import WSGIHandler

    return WSGIHandler()


@contextmanager
def _faults() -> Iterator[list[str]]:
    """Yield a list of tracebacks that Django and the project log within the block."""
    import logging

    from django.core.signals import got_request_exception

    from project.logging import has_traceback

    found: list[str] = []

    def remember(**_said: Any) -> None:
        found.append(traceback.format_exc())

    class Remember(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and has_traceback(record):
                found.append("".join(traceback.format_exception(*record.exc_info)))

    handler = Remember(level=logging.ERROR)
    logging.getLogger().addHandler(handler)
    got_request_exception.connect(remember)
    try:
        yield found
    finally:
        got_request_exception.disconnect(remember)
        logging.getLogger().removeHandler(handler)


def _nothing(**_said: Any) -> None:
    """A replacement of `close_old_connections`."""


@contextmanager
def _kept_connection() -> Iterator[None]:
    """Prevent that the request closes the caller's connection, as Django's test client does."""
    from django.core.signals import request_finished, request_started
    from django.db import close_old_connections

    from scheduler.boinc import scheduler_rpc

    scheduler_rpc.close_old_connections = _nothing  # type: ignore[assignment]
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    try:
        yield
    finally:
        for signal in (request_started, request_finished):
            signal.connect(close_old_connections)
        scheduler_rpc.close_old_connections = close_old_connections


def answer(request: RawRequest, *, read_most: int = 1 << 20) -> RawReply:
    """Answer a request in this process; read at most `read_most` bytes of the reply's body."""
    reply = RawReply()

    def start_response(status: str, headers: list[tuple[str, str]], _exc: Any = None) -> None:
        reply.status, reply.headers = int(status[:3]), headers

    from project.routing import route

    environ = request.environ()
    with _faults() as faults, _kept_connection():
        try:
            chunks: Iterable[bytes] = route(environ, start_response, django_app=_django())
            body = bytearray()
            for chunk in chunks:
                body += chunk
                if len(body) > read_most:
                    break
            reply.body = bytes(body)
            if hasattr(chunks, "close"):
                chunks.close()
        except Exception:  # noqa: BLE001 - whatever it is, it is a fault
            faults.append(traceback.format_exc())
    reply.fault = "\n".join(faults)
    return reply
