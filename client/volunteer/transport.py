"""Sends HTTP requests with limits on the size and the duration of responses.

Only http and https addresses are opened. Redirects from https to http are refused, and at most ten
redirects are followed. A request with the account's key or password is never redirected to another
host. A stalled or very slow exchange is ended by closing its connection. The responses of `get` and
`post` have a maximum size, which also applies after decompression. The caller of `stream` must
limit the size of a download.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import SplitResult, urljoin, urlsplit

import httpx

from volunteer import safe_files
from volunteer.wire.requests import CORE_VERSION_TEXT
from volunteer.wire.web import is_web_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

_TIMEOUT = httpx.Timeout(60.0, connect=30.0)
_MAX_REDIRECTS = 10
_CHUNK_BYTES = 1 << 18
_PORTS = {"http": 80, "https": 443}
OK, PARTIAL, SEE_OTHER, RANGE_REFUSED, SERVER_ERROR = 200, 206, 303, 416, 500


class UnreachableError(Exception):
    """The server returned no usable response.

    For example, the connection failed, a redirect was refused or the response was too large.
    """


class TransferError(Exception):
    """A file was not transferred. `permanent` is True if a retry cannot succeed."""

    def __init__(self, reason: str, *, permanent: bool) -> None:
        super().__init__(reason)
        self.permanent = permanent


def try_each(
    urls: tuple[str, ...], transfer: Callable[[str], None], failure: TransferError
) -> None:
    """Call `transfer` with each address until a call succeeds.

    Raises `failure`, which must be permanent, if there are no addresses. If all calls fail, raises
    the first error that is not permanent, or else the last error.
    """
    for url in urls:
        try:
            transfer(url)
        except TransferError as error:
            # If one address fails transiently, the transfer must be retried.
            if failure.permanent:
                failure = error
        else:
            return
    raise failure


@dataclass(frozen=True, slots=True)
class TransferLimits:
    """Limits on the size of responses in bytes and on their duration in seconds."""

    #: A master page or the reply of a web RPC.
    max_page_bytes: int = 1 << 20
    #: A scheduler reply. A reply with several hundred results is below 2 MB.
    max_reply_bytes: int = 32 << 20
    #: The reply to an upload, of which the first 8 KiB are parsed.
    max_upload_reply_bytes: int = 64 << 10
    #: A small response must be complete within this time after its request was sent.
    reply_seconds: float = 300.0
    #: A transfer below `min_bytes_per_second` for this time is aborted.
    slow_seconds: float = 300.0
    min_bytes_per_second: float = 100.0


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a POST request, which is `head` and the bytes of a file from `offset` on.

    `path` is the path of the file, or None for a body without a file. Links below `root` (default:
    the folder of the file) are not followed.
    """

    head: bytes
    path: Path | None = None
    offset: int = 0
    root: Path | None = None

    def __len__(self) -> int:
        """Return the number of bytes to send."""
        rest = self.path.lstat().st_size - self.offset if self.path else 0
        return len(self.head) + max(rest, 0)

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes. Each call begins again, because a redirect can send the body again."""
        yield self.head
        if self.path is not None:
            root = self.root or self.path.parent
            with safe_files.opened(root, str(self.path.relative_to(root))) as file:
                file.seek(self.offset)
                while chunk := file.read(_CHUNK_BYTES):
                    yield chunk


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response."""

    status: int
    content: bytes

    @property
    def is_good(self) -> bool:
        """Whether the status is 2xx."""
        return OK <= self.status < OK + 100


@dataclass(slots=True)
class Stream:
    """A response whose bytes arrive in chunks.

    `start` is the offset of the first byte in the file, or -1 if it cannot be read.
    """

    status: int
    start: int
    chunks: Iterator[bytes] = field(default_factory=lambda: iter(()))


class HttpTransport:
    """Sends HTTP requests. `get`, `post` and `stream` raise UnreachableError.

    `has_credentials` marks a request with the account's key or password, which is not redirected
    to another host.
    """

    def __init__(self, platform: str, limits: TransferLimits | None = None) -> None:
        agent = f"BOINC client ({platform} {CORE_VERSION_TEXT}) (Manyhands volunteer)"
        self._limits = limits or TransferLimits()
        self._client = httpx.Client(
            timeout=_TIMEOUT,
            # Only codings that `_unpacked` decodes with a limit.
            headers={"User-Agent": agent, "Accept-Encoding": "gzip"},
            follow_redirects=False,
            # Each exchange has its own connection, so closing it does not affect other exchanges.
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    def get(self, url: str, *, has_credentials: bool = False, token: str = "") -> Response:
        """Send a GET request, and return the response of at most `max_page_bytes` bytes.

        `token` is a bearer token.
        """
        request = _Request("GET", _authorization(token), has_credentials=has_credentials)
        return self._whole(url, request, self._limits.max_page_bytes)

    def post_json(self, url: str, content: bytes, *, token: str) -> Response:
        """Send JSON with a bearer token, and return the response of at most `max_page_bytes`."""
        headers = {"Content-Type": "application/json", "Content-Length": str(len(content))}
        headers |= _authorization(token)
        request = _Request("POST", headers, Body(content), has_credentials=True)
        return self._whole(url, request, self._limits.max_page_bytes)

    def post(self, url: str, body: Body, *, has_credentials: bool = False) -> Response:
        """Send a POST request, and return the response.

        The body is sent again to the target of a redirect, also after a 302, but not after a 303.
        A response has at most `max_reply_bytes` bytes if `has_credentials` is set, else at most
        `max_upload_reply_bytes` bytes.
        """
        headers = {"Content-Type": "text/xml", "Content-Length": str(len(body))}
        limits = self._limits
        max_bytes = limits.max_reply_bytes if has_credentials else limits.max_upload_reply_bytes
        return self._whole(url, _Request("POST", headers, body, has_credentials), max_bytes)

    @contextmanager
    def stream(self, url: str, offset: int) -> Iterator[Stream]:
        """Send a GET request for the bytes from `offset` on, and yield the response as a stream."""
        headers = {"Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        with self._exchange(url, _Request("GET", headers)) as (response, watch):
            start = _start_of(response) if response.status_code == PARTIAL else 0
            yield Stream(response.status_code, start, _decoded(response, watch))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _whole(self, url: str, request: _Request, max_bytes: int) -> Response:
        with self._exchange(url, request) as (response, watch):
            watch.finish_within(self._limits.reply_seconds)
            content = bytearray()
            for chunk in _decoded(response, watch):
                content += chunk
                if len(content) > max_bytes:
                    raise UnreachableError(
                        f"{_host(url)}: the response has more than {max_bytes} bytes"
                    )
            return Response(response.status_code, bytes(content))

    @contextmanager
    def _exchange(self, url: str, request: _Request) -> Iterator[tuple[httpx.Response, _Watch]]:
        """Send a request, follow redirects, and yield the last response before its body is read."""
        first = url
        with _Watch(self._limits) as watch, _unreachable(url, watch):
            for _ in range(_MAX_REDIRECTS + 1):
                if not is_web_url(url):
                    raise UnreachableError(f"{url!r:.80} is neither an http nor an https address")
                response = self._send(url, request, watch)
                with contextlib.closing(response):
                    location = response.headers.get("Location")
                    if not response.is_redirect or not location:
                        yield response, watch
                        return
                    url = _checked_redirect(url, location, has_credentials=request.has_credentials)
                    if response.status_code == SEE_OTHER:
                        request = _Request("GET", has_credentials=request.has_credentials)
        raise UnreachableError(f"{_host(first)}: more than {_MAX_REDIRECTS} redirects")

    def _send(self, url: str, request: _Request, watch: _Watch) -> httpx.Response:
        prepared = self._client.build_request(
            request.method,
            url,
            content=watch.counted(request.body.chunks()) if request.body else None,
            headers=dict(request.headers),
            extensions={"trace": watch.note_connection},
        )
        if request.body is None:
            watch.finish_within(self._limits.reply_seconds)
        response = self._client.send(prepared, stream=True)
        watch.finish_within(None)
        return response


def _authorization(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


@dataclass(frozen=True, slots=True)
class _Request:
    """One request, without its address."""

    method: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body | None = None
    has_credentials: bool = False


class _Watch:
    """Monitors one exchange in a thread and shuts down its connections if it is too slow.

    A socket's timeout restarts with every byte, so a server that sends one byte a minute could keep
    the exchange open forever.
    """

    def __init__(self, limits: TransferLimits) -> None:
        self._limits = limits
        self._sockets: list[socket.socket] = []
        self._over = threading.Event()
        self._moved = 0
        self._deadline: float | None = None
        self.reason = ""

    def __enter__(self) -> Self:
        threading.Thread(target=self._run, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def note_connection(self, event: str, info: Mapping[str, Any]) -> None:
        """Store the socket of a new TCP or TLS connection. httpx calls this as a trace callback."""
        if event in {"connection.connect_tcp.complete", "connection.start_tls.complete"}:
            raw_socket = info["return_value"].get_extra_info("socket")
            if isinstance(raw_socket, socket.socket):
                self._sockets.append(raw_socket)

    def finish_within(self, seconds: float | None) -> None:
        """Set the time limit of the rest of the exchange in seconds. None removes the limit."""
        self._deadline = None if seconds is None else time.monotonic() + seconds

    def counted(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the chunks of a request in pieces, and count the bytes that were sent."""
        for chunk in chunks:
            # Pieces of 16 KiB, so that a slow connection makes progress within each window.
            for start in range(0, len(chunk), 1 << 14):
                piece = chunk[start : start + (1 << 14)]
                yield piece
                self._moved += len(piece)
        # The request is sent. From now on, the reply has a time limit.
        self.finish_within(self._limits.reply_seconds)

    def moved(self, nbytes: int) -> None:
        """Count received bytes."""
        self._moved += nbytes

    def _run(self) -> None:
        window = self._limits.slow_seconds
        last, window_end = self._moved, time.monotonic() + window
        while not self._over.wait(min(1.0, window / 4, self._limits.reply_seconds / 4)):
            now, deadline = time.monotonic(), self._deadline
            if deadline is not None and now >= deadline:
                self._cut("the response took too long")
                return
            if now >= window_end:
                if self._moved - last < window * self._limits.min_bytes_per_second:
                    self._cut(f"too slow: {self._moved - last} bytes in {window:.0f} s")
                    return
                last, window_end = self._moved, now + window

    def _cut(self, reason: str) -> None:
        self.reason = reason
        while not self._over.wait(0.2):
            # Repeated, because a redirect may be opening another connection.
            for raw_socket in list(self._sockets):
                with contextlib.suppress(OSError):
                    # SSLSocket.shutdown would change the socket while another thread reads.
                    socket.socket.shutdown(raw_socket, socket.SHUT_RDWR)


def _decoded(response: httpx.Response, watch: _Watch) -> Iterator[bytes]:
    """Yield the bytes of a response, decompressed in pieces of limited size.

    Raises UnreachableError if the coding is unknown or malformed, or if the watch ended the
    exchange.
    """
    coding = response.headers.get("Content-Encoding", "").strip().lower()
    if coding in {"", "identity"}:
        for chunk in response.iter_raw():
            watch.moved(len(chunk))
            yield chunk
    elif coding in {"gzip", "x-gzip", "deflate"}:
        yield from _unpacked(response, watch)
    else:
        raise UnreachableError(f"the response has the unknown Content-Encoding {coding!r:.40}")
    if watch.reason:
        # A response without a length ends with its connection, so a truncated one looks complete.
        raise UnreachableError(watch.reason)


def _unpacked(response: httpx.Response, watch: _Watch) -> Iterator[bytes]:
    # 32: detect gzip or zlib from the data.
    unpacker = zlib.decompressobj(wbits=32 + zlib.MAX_WBITS)
    is_empty = True
    try:
        for chunk in response.iter_raw():
            watch.moved(len(chunk))
            is_empty, rest = False, chunk
            while rest and not unpacker.eof:
                yield unpacker.decompress(rest, _CHUNK_BYTES)
                rest = unpacker.unconsumed_tail
        while not unpacker.eof and (piece := unpacker.decompress(b"", _CHUNK_BYTES)):
            yield piece
    except zlib.error as error:
        raise UnreachableError(f"the response cannot be decompressed: {error}") from error
    if not unpacker.eof and not is_empty:
        raise UnreachableError("the compressed response is truncated")


@contextmanager
def _unreachable(url: str, watch: _Watch) -> Iterator[None]:
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        reason = watch.reason or str(error) or type(error).__name__
        raise UnreachableError(f"{_host(url)}: {reason}") from error
    except safe_files.UnsafeFileError as error:
        raise UnreachableError(str(error)) from error


def _host(url: str) -> str:
    """Return the host of an address for messages.

    The full address is not shown, because its query may contain the hash of a password.
    """
    return urlsplit(url).netloc or f"{url!r:.80}"


def _checked_redirect(url: str, location: str, *, has_credentials: bool) -> str:
    """Return the target of a redirect. Raises UnreachableError if it may not be followed."""
    try:
        target = urljoin(url, location)
        source, destination = urlsplit(url), urlsplit(target)
        is_same = _is_same_host(source, destination)
    except ValueError as error:
        raise UnreachableError(
            f"{_host(url)} redirects to {location!r:.80}, which is not an address"
        ) from error
    if not is_web_url(target):
        message = f"{_host(url)} redirects to {location!r:.80}, which is not http or https"
    elif source.scheme == "https" and destination.scheme != "https":
        message = f"{_host(url)} redirects to {destination.netloc}, which is not encrypted"
    elif has_credentials and not is_same:
        message = (
            f"{_host(url)} redirects to {destination.netloc}, which must not get the account key. "
            "Hint: if the project has moved, detach and attach with its new address"
        )
    else:
        return target
    raise UnreachableError(message)


def _is_same_host(source: SplitResult, destination: SplitResult) -> bool:
    """Return whether a redirect stays on the same host and port.

    A redirect from http on port 80 to https on port 443 counts as the same port.
    """
    port = source.port or _PORTS.get(source.scheme, 0)
    if source.hostname != destination.hostname:
        return False
    other = destination.port or _PORTS.get(destination.scheme, 0)
    is_upgrade = (source.scheme, destination.scheme) == ("http", "https")
    return port == other or (is_upgrade and (port, other) == (80, 443))


def _start_of(response: httpx.Response) -> int:
    """Return the first offset in a header such as `Content-Range: bytes 20-99/100`.

    Returns -1 if the header cannot be read.
    """
    match = re.match(r"bytes +([0-9]{1,19})-", response.headers.get("Content-Range", ""))
    return int(match[1]) if match else -1
