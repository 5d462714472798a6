"""Connects the scientist's program to the project, with injected faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
from django.test import Client

Answer = Callable[[httpx.Request, httpx.Response], httpx.Response]


class Wire(httpx.BaseTransport):
    """A transport that sends requests to the project's test client.

    Each of `faults` is (end of a path, function); it is applied once, to the first request that
    matches.
    """

    def __init__(self) -> None:
        self._inner = Client(raise_request_exception=False)
        self.seen: list[httpx.Request] = []
        self.faults: list[tuple[str, Answer]] = []
        self.is_down = False

    def carry(self, request: httpx.Request) -> httpx.Response:
        if self.is_down:
            raise httpx.ConnectError("Connection refused", request=request)
        request.read()
        self.seen.append(request)
        answer = self._carry(request)
        for place, (path, fault) in enumerate(self.faults):
            if request.url.path.endswith(path):
                del self.faults[place]
                return fault(request, answer)
        return answer

    handle_request = carry

    def _carry(self, request: httpx.Request) -> httpx.Response:
        headers = {name: value for name, value in request.headers.items() if name != "host"}
        told = self._inner.generic(
            request.method,
            request.url.raw_path.decode(),
            request.content,
            headers.get("content-type", ""),
            headers=headers,
        )
        content = b"".join(told.streaming_content) if told.streaming else told.content
        return httpx.Response(told.status_code, headers=dict(told.items()), content=content)

    def paths(self, method: str) -> list[str]:
        return [one.url.path.removeprefix("/api/v1/") for one in self.seen if one.method == method]


def lost(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
    """A fault: the project processes the request, and the reply is lost."""
    answer.read()
    raise httpx.ReadError("Connection reset by peer", request=request)


def cut(after: int) -> Answer:
    """Return a fault that cuts the reply after this number of bytes."""

    def fault(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        return _with(answer, lambda content: content[:after], breaks=request)

    return fault


def changed(old: bytes, new: bytes) -> Answer:
    """Return a fault that replaces bytes of the reply."""

    def fault(_request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        return _with(answer, lambda content: content.replace(old, new, 1))

    return fault


class _Stream(httpx.SyncByteStream):
    def __init__(self, content: bytes, breaks: httpx.Request | None) -> None:
        self._content, self._breaks = content, breaks

    def __iter__(self) -> Iterator[bytes]:
        yield self._content
        if self._breaks is not None:
            raise httpx.ReadError("Connection reset by peer", request=self._breaks)


def _with(
    answer: httpx.Response, change: Callable[[bytes], bytes], breaks: httpx.Request | None = None
) -> httpx.Response:
    content = change(answer.read())
    return httpx.Response(
        answer.status_code, headers=answer.headers, stream=_Stream(content, breaks)
    )
