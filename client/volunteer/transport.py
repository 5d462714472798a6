"""HTTP: a port of four methods, and its real side."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urljoin, urlsplit

import httpx

from volunteer.wire.requests import CORE_VERSION_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TIMEOUT = httpx.Timeout(60.0, connect=30.0)
_MOST_REDIRECTS = 10
_CHUNK = 1 << 18
OK, PARTIAL, SEE_OTHER, RANGE_REFUSED, SERVER_ERROR = 200, 206, 303, 416, 500


class UnreachableError(Exception):
    """No answer came: no connection, a broken one, or endless redirects."""


@dataclass(frozen=True, slots=True)
class Body:
    """What is posted: some bytes, then those of a file from an offset on."""

    head: bytes
    path: Path | None = None
    offset: int = 0

    def __len__(self) -> int:
        """Count the bytes to send."""
        rest = self.path.stat().st_size - self.offset if self.path else 0
        return len(self.head) + max(rest, 0)

    def chunks(self) -> Iterator[bytes]:
        """Give the bytes; anew at each call, for a redirect wants them again."""
        yield self.head
        if self.path is not None:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                while chunk := file.read(_CHUNK):
                    yield chunk


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer."""

    status: int
    content: bytes

    @property
    def is_good(self) -> bool:
        """Tell whether the status is one of success."""
        return OK <= self.status < OK + 100


@dataclass(slots=True)
class Stream:
    """An answer whose bytes come one chunk after the other; `start` is their offset."""

    status: int
    start: int
    chunks: Iterator[bytes] = field(default_factory=lambda: iter(()))


class Transport(Protocol):
    """What the client needs of HTTP. All raise UnreachableError."""

    def get(self, url: str) -> Response:
        """Fetch something small."""
        ...

    def post(self, url: str, body: Body) -> Response:
        """Send something; redirects keep the body, whatever their number says."""
        ...

    def stream(self, url: str, offset: int) -> AbstractContextManager[Stream]:
        """Fetch something large, from an offset on if the server can."""
        ...

    def close(self) -> None:
        """Let go of all connections."""
        ...


class HttpTransport:
    """The port over httpx."""

    def __init__(self, platform: str) -> None:
        agent = f"BOINC client ({platform} {CORE_VERSION_TEXT}) (Manyhands volunteer)"
        self._client = httpx.Client(
            timeout=_TIMEOUT,
            headers={"User-Agent": agent},
            follow_redirects=False,
            max_redirects=_MOST_REDIRECTS,
        )

    def get(self, url: str) -> Response:
        """Fetch something small, through redirects."""
        with _unreachable(url):
            answer = self._client.get(url, follow_redirects=True)
            return Response(answer.status_code, answer.content)

    def post(self, url: str, body: Body) -> Response:
        """Post, and post again where a redirect points: a 302 must not lose the body."""
        with _unreachable(url):
            for _ in range(_MOST_REDIRECTS):
                answer = self._client.post(
                    url,
                    content=body.chunks(),
                    headers={"Content-Type": "text/xml", "Content-Length": str(len(body))},
                )
                where = answer.headers.get("Location")
                if not answer.is_redirect or not where:
                    return Response(answer.status_code, answer.content)
                url = _checked_redirect(url, where)
                if answer.status_code == SEE_OTHER:
                    return self.get(url)
        message = f"{url} redirects without end"
        raise UnreachableError(message)

    @contextmanager
    def stream(self, url: str, offset: int) -> Iterator[Stream]:
        """Fetch by GET with a Range; `start` says where the server really begins."""
        headers = {"Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        with (
            _unreachable(url),
            self._client.stream("GET", url, headers=headers, follow_redirects=True) as answer,
        ):
            start = _start_of(answer) if answer.status_code == PARTIAL else 0
            yield Stream(answer.status_code, start, answer.iter_bytes(_CHUNK))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


@contextmanager
def _unreachable(url: str) -> Iterator[None]:
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        host = urlsplit(url).netloc or url
        message = f"{host}: {str(error) or type(error).__name__}"
        raise UnreachableError(message) from error


def _checked_redirect(url: str, where: str) -> str:
    """Follow to another address, but never from an encrypted one to a plain one."""
    target = urljoin(url, where)
    if urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https":
        message = f"{url} redirects to {target}, which is not encrypted"
        raise UnreachableError(message)
    return target


def _start_of(answer: httpx.Response) -> int:
    """Read `Content-Range: bytes 20-99/100`; -1 if it cannot be read."""
    first = answer.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return int(first) if first.strip().isdigit() else -1
