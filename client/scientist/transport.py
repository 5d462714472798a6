"""HTTP to a project: patience for what may be repeated, and no more."""

from __future__ import annotations

import random
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any
from urllib.parse import parse_qs, urlsplit

import httpx

from scientist.errors import ScientistError, Unreachable, UsageError, problem

#: Seconds without an answer until the connection is given up; a submission may take its time.
_TIMEOUT = httpx.Timeout(60.0, connect=10.0, read=300.0)
#: How long a project that has never answered is asked again: a wrong address is no outage.
_FIRST_PATIENCE = 2.0
_PATIENCE = 120.0
_LONGEST_WAIT = 15.0
#: Nothing was sent, so that anything may be sent again.
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_PASSING = {429, 502, 503, 504}
_CONFLICT, _NOT_MODIFIED, _GOOD, _REDIRECT, _REFUSED = 409, 304, 200, 300, 400
_USUAL_AGENT = "manyhands-scientist"

Params = Mapping[str, Any]
Body = Callable[[], Iterator[bytes]]


def project_url(text: str) -> str:
    """The address of a project in one form: a scheme, no query, one slash at the end.

    >>> project_url("127.0.0.1:8000"), project_url("https://lab.example/api/v1")
    ('http://127.0.0.1:8000/', 'https://lab.example/')
    """
    text = text.strip()
    if "://" not in text:
        near = text.partition("/")[0].partition(":")[0] in {"localhost", "127.0.0.1", "[::1]"}
        text = f"http{'' if near else 's'}://{text}"
    parts = urlsplit(text)
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port is None:
        hint = "write it as http://127.0.0.1:8000/ or https://project.example/."
        raise UsageError(f"{text!r} is no address of a project.", hint)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/").removesuffix("/api/v1").rstrip("/")
    return f"{parts.scheme}://{host}{port}{path}/"


def new_key() -> str:
    """An idempotency key that nobody else makes."""
    return secrets.token_hex(16)


class Transport:
    """Requests to one project's API.  May be shared among threads.

    GET, PUT and DELETE, and POST with an idempotency key, are repeated while the project is away,
    up to `patience` seconds; a refusal never is.
    """

    def __init__(
        self, url: str, token: str | None = None, *, patience: float = _PATIENCE, agent: str = ""
    ) -> None:
        self.url = project_url(url)
        self._patience = patience
        self._met = False
        self._closing = threading.Event()
        headers = {"User-Agent": agent or _USUAL_AGENT, "Accept": "application/json, */*;q=0.5"}
        if token:
            if not token.isascii() or not token.isprintable() or " " in token:
                raise UsageError("The token has characters that no token has.", "copy it again.")
            headers["Authorization"] = f"Bearer {token}"
        self._client = httpx.Client(
            base_url=f"{self.url}api/v1/", timeout=_TIMEOUT, headers=headers, follow_redirects=False
        )

    def close(self) -> None:
        """Let go of the connections; whoever waits for the project stops waiting."""
        self._closing.set()
        self._client.close()

    def get(self, path: str, params: Params | None = None) -> Any:  # noqa: ANN401  any JSON
        """Fetch JSON.  Raises Unreachable, ProblemError."""
        return self._json(
            lambda: self._client.get(path, params=_said(params)), path, repeatable=True
        )

    def pages(self, path: str, params: Params | None = None) -> Iterator[dict[str, Any]]:
        """Walk a list to its end, page by page."""
        asked = _said(params)
        while True:
            page = self.get(path, asked)
            yield from page["results"]
            cursor = parse_qs(urlsplit(page.get("next") or "").query).get("cursor")
            if not cursor:
                return
            # The address that the project knows itself by may not be the one that leads to it.
            asked["cursor"] = cursor[0]

    @property
    def patience(self) -> float:
        """How long it goes on asking a project that does not answer, in seconds."""
        return self._patience

    def get_if_changed(
        self, path: str, etag: str, *, patience: float | None = None
    ) -> tuple[Any, str]:
        """Fetch JSON, or None if it still is what the tag says; gives the new tag too.

        `patience` in seconds replaces the transport's own.
        """
        headers = {"If-None-Match": etag} if etag else {}
        answer = self._patiently(
            lambda: self._client.get(path, headers=headers), repeatable=True, most=patience
        )
        if answer.status_code == _NOT_MODIFIED:
            return None, etag
        return _checked(answer, self.url).json(), answer.headers.get("ETag", "")

    def post(
        self,
        path: str,
        body: Any = None,  # noqa: ANN401  any JSON
        *,
        key: str | None = None,
        repeatable: bool = True,
    ) -> Any:  # noqa: ANN401  any JSON
        """Send JSON under an idempotency key, made here unless given.

        Without being `repeatable`, it is sent without a key, and once.
        """
        headers = {"Idempotency-Key": key or new_key()} if repeatable else {}
        return self._json(
            lambda: self._client.post(path, json={} if body is None else body, headers=headers),
            path,
            repeatable=repeatable,
        )

    def patch(self, path: str, body: Any) -> Any:  # noqa: ANN401  any JSON
        """Change something; the same change twice is one."""
        return self._json(lambda: self._client.patch(path, json=body), path, repeatable=True)

    def delete(self, path: str) -> None:
        """Remove something."""
        self._json(lambda: self._client.delete(path), path, repeatable=True)

    def send(
        self,
        method: str,
        path: str,
        body: Body,
        nbytes: int,
        headers: Mapping[str, str],
        params: Params | None = None,
    ) -> Any:  # noqa: ANN401  any JSON
        """Send a long body, made anew at each try; gives the JSON that is answered."""
        said = {**headers, "Content-Length": str(nbytes)}
        return self._json(
            lambda: self._client.request(
                method, path, content=body(), headers=said, params=_said(params)
            ),
            path,
            repeatable=True,
        )

    def send_form(
        self, path: str, fields: Sequence[tuple[str, str]], files: Sequence[tuple[str, IO[bytes]]]
    ) -> Any:  # noqa: ANN401  any JSON
        """Send a form of fields and files (name, content), under an idempotency key."""
        headers = {"Idempotency-Key": new_key()}
        # A field is a part without a file's name, so that the form is multipart in any case.
        parts: list[tuple[str, Any]] = [(name, (None, value.encode())) for name, value in fields]
        parts += [("file", (name, file, "application/octet-stream")) for name, file in files]

        def attempt() -> httpx.Response:
            for _, file in files:
                file.seek(0)
            return self._client.post(path, files=parts, headers=headers)

        return self._json(attempt, path, repeatable=True)

    @contextmanager
    def stream(self, path: str, params: Params | None = None) -> Iterator[httpx.Response]:
        """Open a long answer.  Raises Unreachable also if it breaks off while it is read."""
        opened: list[httpx.Response] = []

        def attempt() -> httpx.Response:
            request = self._client.build_request("GET", path, params=_said(params))
            return self._client.send(request, stream=True)

        try:
            answer = self._patiently(attempt, repeatable=True)
            opened.append(answer)
            if answer.status_code >= _REDIRECT:
                answer.read()
            yield _checked(answer, self.url)
        except httpx.TransportError as error:
            raise _unreachable(self.url, error) from error
        finally:
            for one in opened:
                one.close()

    def _json(self, attempt: Callable[[], httpx.Response], path: str, *, repeatable: bool) -> Any:  # noqa: ANN401  any JSON
        answer = _checked(self._patiently(attempt, repeatable=repeatable), self.url)
        if not answer.content:
            return None
        try:
            return answer.json()
        except ValueError:
            raise _no_project(self.url, path) from None

    def _patiently(
        self, attempt: Callable[[], httpx.Response], *, repeatable: bool, most: float | None = None
    ) -> httpx.Response:
        """Try until there is an answer that is more than a pause; the last one counts."""
        began, wait = time.monotonic(), 0.25
        while True:
            answer, error = None, None
            try:
                answer = attempt()
            except httpx.TransportError as caught:
                error = caught
            except (httpx.InvalidURL, UnicodeError) as caught:
                raise UsageError(f"{self.url} is no address: {caught}") from caught
            asked = None
            if answer is not None:
                self._met = True
                asked = _pause(answer)
                if asked is None:
                    return answer
            wait = min(wait * 2, _LONGEST_WAIT)
            pause = max(asked or 0.0, wait * random.uniform(0.7, 1.0))  # noqa: S311  no secret
            patience = self._patience if most is None else most
            patience = patience if self._met else min(_FIRST_PATIENCE, patience)
            may_repeat = repeatable or isinstance(error, _UNSENT)
            if not may_repeat or time.monotonic() - began + pause > patience:
                if answer is not None:
                    return answer
                assert error is not None
                raise _unreachable(self.url, error) from error
            if answer is not None:
                answer.close()
            if self._closing.wait(pause):
                raise Unreachable("The connection was closed.")


def _said(params: Params | None) -> dict[str, Any]:
    return {name: value for name, value in (params or {}).items() if value is not None}


def _pause(answer: httpx.Response) -> float | None:
    """How long the project wants to be left alone; None if this is its answer."""
    if answer.status_code == _CONFLICT and b"still_under_way" in answer.read():
        # The same request, sent on a connection that broke, is still being worked on.
        return _retry_after(answer)
    if answer.status_code not in _PASSING:
        return None
    if answer.status_code == 429 and not answer.headers.get("Retry-After"):  # noqa: PLR2004
        return None
    return _retry_after(answer)


def _retry_after(answer: httpx.Response) -> float:
    said = answer.headers.get("Retry-After", "").strip()
    return float(said) if said.isdecimal() else 0.0


def _checked(answer: httpx.Response, url: str) -> httpx.Response:
    """Let a good answer through.  Raises ProblemError, Unreachable."""
    status = answer.status_code
    if _GOOD <= status < _REDIRECT:
        return answer
    if status < _REFUSED:
        where = answer.headers.get("Location", "elsewhere")
        raise Unreachable(f"{url} sends requests on to {where}.", "use that address (--url).")
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, Mapping) or not ({"code", "detail"} & body.keys()):
        if status >= 500:  # noqa: PLR2004  HTTP's
            raise problem(status, {"detail": f"{url} could not answer (HTTP status {status})."})
        raise _no_project(url, f"status {status}")
    raise problem(status, body)


def _no_project(url: str, what: str) -> Unreachable:
    hint = "check the address; it is the one that volunteers attach to."
    return Unreachable(f"{url} answers, but not as a Manyhands project does ({what}).", hint)


def _unreachable(url: str, error: Exception) -> ScientistError:
    reason = re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or type(error).__name__
    hint = "check the address and that the project is up, then try again."
    return Unreachable(f"No answer from {url}: {reason.rstrip('.')}.", hint)
