"""Sends HTTP requests to a project, with retries where a repeat is safe."""

from __future__ import annotations

import random
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import IO, Any
from urllib.parse import parse_qs, urlsplit

import httpx

from scientist.errors import ScientistError, Unreachable, UsageError, problem

#: In seconds; the read timeout is long because the answer to a large submission takes long.
_TIMEOUT = httpx.Timeout(60.0, connect=10.0, read=300.0)
#: The time for retries if the project has never answered: the address may be wrong.
_FIRST_CONTACT_SECONDS = 2.0
_RETRY_SECONDS = 120.0
_MAX_PAUSE_SECONDS = 15.0
#: Errors that occur before a request is sent, so that every request may be repeated.
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_RETRYABLE_STATUSES = {429, 502, 503, 504}
_CONFLICT, _NOT_MODIFIED, _OK, _REDIRECT, _CLIENT_ERROR = 409, 304, 200, 300, 400
_AGENT = "manyhands-scientist"

Params = Mapping[str, Any]
Body = Callable[[], Iterator[bytes]]


def project_url(text: str) -> str:
    """Return the address of a project with a scheme and a final slash.

    A query and the path of the API are removed.  The default scheme is http for this computer and
    https for other hosts.  Raises UsageError if the address is invalid.

    >>> project_url("127.0.0.1:8000"), project_url("https://lab.example/api/v1")
    ('http://127.0.0.1:8000/', 'https://lab.example/')
    """
    text = text.strip()
    if "://" not in text:
        is_local = text.partition("/")[0].partition(":")[0] in {"localhost", "127.0.0.1", "[::1]"}
        text = f"http{'' if is_local else 's'}://{text}"
    parts = urlsplit(text)
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port is None:
        hint = "write it as http://127.0.0.1:8000/ or https://project.example/."
        raise UsageError(f"{text!r} is not the address of a project.", hint)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/").removesuffix("/api/v1").rstrip("/")
    return f"{parts.scheme}://{host}{port}{path}/"


def _idempotency_key() -> dict[str, str]:
    """Return the header `Idempotency-Key` with a new random key."""
    return {"Idempotency-Key": secrets.token_hex(16)}


class Transport:
    """Sends requests to the API of one project.  This class is thread-safe.

    A request is retried for up to `patience` seconds while the project does not answer or its
    answer permits a retry (see `_retry_pause`), but only for 2 seconds if the project has never
    answered.  A POST without an idempotency key is retried only if it was not sent.
    """

    def __init__(
        self, url: str, token: str | None = None, *, patience: float = _RETRY_SECONDS
    ) -> None:
        self.url = project_url(url)
        #: Seconds for which requests are retried while the project does not answer.
        self.patience = patience
        self._has_answered = False
        self._closing = threading.Event()
        headers = {"User-Agent": _AGENT, "Accept": "application/json, */*;q=0.5"}
        if token:
            if not token.isascii() or not token.isprintable() or " " in token:
                raise UsageError("The token has invalid characters.", "copy it again.")
            headers["Authorization"] = f"Bearer {token}"
        self._client = httpx.Client(
            base_url=f"{self.url}api/v1/", timeout=_TIMEOUT, headers=headers, follow_redirects=False
        )

    def close(self) -> None:
        """Close the connections.  Threads that pause before a retry raise Unreachable."""
        self._closing.set()
        self._client.close()

    def get(self, path: str, params: Params | None = None) -> Any:  # noqa: ANN401  any JSON
        """Send a GET request; return the JSON answer.  Raises Unreachable or ProblemError."""
        return self._request("GET", path, params=_without_none(params))

    def pages(self, path: str, params: Params | None = None) -> Iterator[dict[str, Any]]:
        """Yield all items of a list of the API; each page is a GET request."""
        query = _without_none(params)
        while True:
            page = self.get(path, query)
            yield from page["results"]
            cursor = parse_qs(urlsplit(page.get("next") or "").query).get("cursor")
            if not cursor:
                return
            # Only the cursor is taken from `next`: behind a proxy, its host may not be reachable.
            query["cursor"] = cursor[0]

    def get_if_changed(
        self, path: str, etag: str, *, patience: float | None = None
    ) -> tuple[Any, str]:
        """Send a GET request with an ETag; return the JSON answer and its ETag.

        The answer is None if `etag` is current.  `patience`, in seconds, overrides the `patience`
        of the transport.
        """
        headers = {"If-None-Match": etag} if etag else {}
        answer = self._with_retries(
            lambda: self._client.get(path, headers=headers), patience=patience
        )
        if answer.status_code == _NOT_MODIFIED:
            return None, etag
        return _checked(answer, self.url).json(), answer.headers.get("ETag", "")

    def post(self, path: str, body: Params | None = None, *, repeatable: bool = True) -> Any:  # noqa: ANN401  any JSON
        """Send a POST request with a new idempotency key; return the JSON answer.

        If `repeatable` is false, the request has no key and is retried only if it was not sent.
        """
        headers = _idempotency_key() if repeatable else {}
        return self._request("POST", path, repeatable=repeatable, json=body or {}, headers=headers)

    def patch(self, path: str, body: Any) -> Any:  # noqa: ANN401  any JSON
        """Send a PATCH request; return the JSON answer.

        The request is retried, because the changes are idempotent.
        """
        return self._request("PATCH", path, json=body)

    def delete(self, path: str) -> None:
        self._request("DELETE", path)

    def send(
        self,
        method: str,
        path: str,
        body: Body,
        nbytes: int,
        headers: Mapping[str, str],
        params: Params | None = None,
    ) -> Any:  # noqa: ANN401  any JSON
        """Send a request with a streamed body of `nbytes` bytes; return the JSON answer.

        `body` returns the chunks of the body.  It is called for each attempt.
        """
        arguments: dict[str, Any] = {"headers": {**headers, "Content-Length": str(nbytes)}}
        arguments["params"] = _without_none(params)
        return self._json(
            lambda: self._client.request(method, path, content=body(), **arguments), path
        )

    def send_form(
        self, path: str, fields: Sequence[tuple[str, str]], files: Sequence[tuple[str, IO[bytes]]]
    ) -> Any:  # noqa: ANN401  any JSON
        """Send a multipart form with an idempotency key; return the JSON answer.

        `fields` are pairs of a name and a value.  `files` are pairs of a name and an open file.
        """
        headers = _idempotency_key()
        # Fields are sent as parts without a file name, so that a form without files is multipart.
        parts: list[tuple[str, Any]] = [(name, (None, value.encode())) for name, value in fields]
        parts += [("file", (name, file, "application/octet-stream")) for name, file in files]

        def attempt() -> httpx.Response:
            for _, file in files:
                file.seek(0)
            return self._client.post(path, files=parts, headers=headers)

        return self._json(attempt, path)

    @contextmanager
    def stream(self, path: str, params: Params | None = None) -> Iterator[httpx.Response]:
        """Send a GET request; return a context manager for the streamed answer.

        Raises ProblemError if the project refuses the request, and Unreachable, also if the
        connection breaks in the `with` block.
        """

        def attempt() -> httpx.Response:
            request = self._client.build_request("GET", path, params=_without_none(params))
            return self._client.send(request, stream=True)

        try:
            with closing(self._with_retries(attempt)) as answer:
                if answer.status_code >= _REDIRECT:
                    answer.read()
                yield _checked(answer, self.url)
        except httpx.TransportError as error:
            raise _unreachable(self.url, error) from error

    def _request(self, method: str, path: str, *, repeatable: bool = True, **arguments: Any) -> Any:  # noqa: ANN401  any JSON
        return self._json(
            lambda: self._client.request(method, path, **arguments), path, repeatable=repeatable
        )

    def _json(
        self, attempt: Callable[[], httpx.Response], path: str, *, repeatable: bool = True
    ) -> Any:  # noqa: ANN401  any JSON
        answer = _checked(self._with_retries(attempt, repeatable=repeatable), self.url)
        if not answer.content:
            return None
        try:
            return answer.json()
        except ValueError:
            raise _not_a_project(self.url, path) from None

    def _with_retries(
        self,
        attempt: Callable[[], httpx.Response],
        *,
        repeatable: bool = True,
        patience: float | None = None,
    ) -> httpx.Response:
        """Send a request, with retries and back-off, and return the answer.

        A retry follows if there is no answer or if `_retry_pause` permits a retry.  After
        `patience` seconds, or if the request is not repeatable, the last answer is returned, or
        Unreachable is raised if there is no answer.
        """
        began, wait = time.monotonic(), 0.25
        max_seconds = self.patience if patience is None else patience
        while True:
            answer, error = None, None
            try:
                answer = attempt()
            except httpx.TransportError as caught:
                error = caught
            except (httpx.InvalidURL, UnicodeError) as caught:
                raise UsageError(f"{self.url} is not a valid address: {caught}") from caught
            requested_pause = None
            if answer is not None:
                self._has_answered = True
                requested_pause = _retry_pause(answer)
                if requested_pause is None:
                    return answer
            wait = min(wait * 2, _MAX_PAUSE_SECONDS)
            jittered = wait * random.uniform(0.7, 1.0)  # noqa: S311  no secret
            pause = max(requested_pause or 0.0, jittered)
            limit = max_seconds if self._has_answered else min(_FIRST_CONTACT_SECONDS, max_seconds)
            may_repeat = repeatable or isinstance(error, _UNSENT)
            if not may_repeat or time.monotonic() - began + pause > limit:
                if answer is not None:
                    return answer
                assert error is not None
                raise _unreachable(self.url, error) from error
            if answer is not None:
                answer.close()
            if self._closing.wait(pause):
                raise Unreachable("The connection was closed.")


def _without_none(params: Params | None) -> dict[str, Any]:
    return {name: value for name, value in (params or {}).items() if value is not None}


def _retry_pause(answer: httpx.Response) -> float | None:
    """Return the seconds to wait before a retry, or None if the answer permits no retry.

    A retry is permitted after status 502, 503 or 504, after 429 with a Retry-After header, and
    after 409 if the same request is still in progress.  Without a Retry-After header, 0 is
    returned.
    """
    status, retry_after = answer.status_code, answer.headers.get("Retry-After", "").strip()
    if status == _CONFLICT:
        # An earlier attempt, whose connection broke, is still being processed.
        may_retry = b"still_under_way" in answer.read()
    else:
        may_retry = status in _RETRYABLE_STATUSES and bool(status != 429 or retry_after)  # noqa: PLR2004
    if not may_retry:
        return None
    return float(retry_after) if retry_after.isdecimal() else 0.0


def _checked(answer: httpx.Response, url: str) -> httpx.Response:
    """Return the answer if its status is 2xx, else raise ProblemError or Unreachable.

    Unreachable is raised for a redirect, and for a status 4xx without a problem document of the
    API.
    """
    status = answer.status_code
    if _OK <= status < _REDIRECT:
        return answer
    if status < _CLIENT_ERROR:
        target = answer.headers.get("Location", "another address")
        raise Unreachable(f"{url} redirects to {target}.", "use that address (--url).")
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, Mapping) or not ({"code", "detail"} & body.keys()):
        if status >= 500:  # noqa: PLR2004  HTTP's
            raise problem(status, {"detail": f"{url} could not answer (HTTP status {status})."})
        raise _not_a_project(url, f"status {status}")
    raise problem(status, body)


def _not_a_project(url: str, reason: str) -> Unreachable:
    hint = "check the address; volunteers attach to the same address."
    return Unreachable(f"{url} does not answer as a Manyhands project ({reason}).", hint)


def _unreachable(url: str, error: Exception) -> ScientistError:
    reason = re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or type(error).__name__
    hint = "check the address and that the project is running, then try again."
    return Unreachable(f"No answer from {url}: {reason.rstrip('.')}.", hint)
