"""Uses the API of a trusted pool: claims work, and waits for cancellations."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from random import random
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urljoin, urlsplit

from volunteer import events
from volunteer.transport import HttpTransport, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from volunteer.display import Lines
    from volunteer.transport import Response

# Shorter than the transport's limit on the silence of a server.
_WAIT_SECONDS = 45
# A server without the long poll answers at once, so it is asked again after this time.
_POLL_SECONDS = 2.0
_MIN_WAIT_SECONDS = 1.0
# The longest time between two attempts while the long poll is away, for example at its restart.
# Cancellations arrive late by at most this time afterwards.
_MAX_RETRY_SECONDS = 5.0
_REFUSED_SECONDS = 60.0
# After the answer `unfit`, results are claimed from the list for this time. Such an answer can take
# the server seconds, because it has looked at its maximum of results.
LIST_SECONDS = 60.0
# One call of `claim` tries at most `MAX_PAGES` pages of `MAX_LISTED` results of the list; the next
# call goes on after them, so that results that do not fit keep no worker from later ones.
MAX_LISTED = 20
MAX_PAGES = 2
# A claim that succeeds later than this after the beginning of the list leads back to the oldest
# results: those that were refused may fit now. Otherwise the list is read to its end first.
RESTART_SECONDS = 60.0
_MAX_NAMES = 10_000
_MAX_NAME_LENGTH = 300
_OK, _NOT_FOUND, _CONFLICT, _TOO_MANY, _SERVER_ERROR = 200, 404, 409, 429, 500
_REFUSED = frozenset({401, 403, 404})
# The reasons of a refusal while the server answers another request of this host, and if none of the
# results that it has looked at fits although more are unsent.
_BUSY, _UNFIT = "busy", "unfit"


class PoolError(Exception):
    """The pool refused a request, or its answer cannot be used. The message has the reason."""


class PoolAwayError(PoolError):
    """The pool cannot answer now, for example because it is restarted."""


@dataclass(slots=True)
class ListPosition:
    """The id of the last result that was tried, and the time when the list was begun.

    Until the time `list_until`, results are claimed from the list; after it, the server selects
    them.
    """

    after: int = 0
    began: float = field(default_factory=time.monotonic)
    list_until: float = 0.0


@dataclass(frozen=True, slots=True)
class PoolLink:
    """The pool of one project, with the token of this host."""

    project: str
    token: str
    transport: HttpTransport
    #: The ids of claimed results by their names; the scheduler sends only names.
    ids: dict[str, int] = field(default_factory=dict)
    position: ListPosition = field(default_factory=ListPosition)

    def wait_url(self) -> str:
        """Return the address at which the host waits. Raises PoolError and UnreachableError.

        The address must be at the host of the project, because it gets the token.
        """
        url = self._get(self._url("")).get("wait_url")
        project, parts = urlsplit(self.project), urlsplit(url if isinstance(url, str) else "")
        is_same = parts.hostname == project.hostname and parts.scheme in {project.scheme, "https"}
        if not is_same:
            raise PoolError(f"the pool waits at another address: {url!r:.80}")
        return parts.geturl()

    def cancelled(self, url: str, cursor: str) -> tuple[str, tuple[str, ...]]:
        """Wait for cancellations, and return the new cursor and the names of results to abort."""
        query = urlencode({"cursor": cursor, "timeout": _WAIT_SECONDS})
        answer = self._get(f"{url}?{query}")
        names, new = answer.get("aborts"), answer.get("cursor")
        if not (isinstance(names, list) and isinstance(new, str)):
            raise PoolError("the pool sent no list of cancellations")
        kept = [name for name in names[:_MAX_NAMES] if isinstance(name, str)]
        return new[:64], tuple(name for name in kept if len(name) <= _MAX_NAME_LENGTH)

    def claim(self, *, cpus: float, memory_bytes: float, disk_bytes: float = 0.0) -> str:
        """Claim one available result that fits, and return its name, or an empty string.

        The server selects it in the order of the queues. If none of the results that the server
        has looked at fits although more are unsent, results of the list are tried instead, also
        for the next `LIST_SECONDS`. Memory and disk space are in bytes; 0 means unknown. This
        client uses no GPUs. Raises PoolError and UnreachableError.
        """
        limits = {"max_cpus": max(cpus, 1.0), "max_gpus": 0}
        sizes = {"max_memory_bytes": memory_bytes, "max_disk_bytes": disk_bytes}
        limits |= {name: size for name, size in sizes.items() if size}
        if time.monotonic() >= self.position.list_until:
            name = self._acquire(limits)
            if name is not None:
                return name
            self.position.list_until = time.monotonic() + LIST_SECONDS
        return self._claim_listed(limits)

    def _acquire(self, limits: Mapping[str, float]) -> str | None:
        """Return the name of the result that the server selected, or an empty string.

        Returns None if none of the results that the server has looked at fits, but more are unsent.
        """
        response = self.transport.post_json(
            self._url("/acquire"), json.dumps(limits).encode(), token=self.token
        )
        if response.status == _CONFLICT:
            reason = _object(response.content).get("reason")
            if reason == _BUSY:
                return ""
            if reason == _UNFIT:
                return None
        results = _checked(response).get("results")
        if not isinstance(results, list):
            raise PoolError("the pool sent no list of results")
        return _name_of(results[0]) if results else ""

    def _claim_listed(self, limits: Mapping[str, float]) -> str:
        """Claim the next result of the list, and return its name, or an empty string.

        If another host was faster, or the result was cancelled or does not fit, the next one is
        tried.
        """
        for _ in range(MAX_PAGES):
            ids = self._listed(limits)
            for result_id in ids:
                answer = self._claim_one(result_id)
                if answer.get("reason") == _BUSY:
                    return ""
                self.position.after = result_id
                if name := answer.get("name"):
                    if time.monotonic() - self.position.began > RESTART_SECONDS:
                        self._restart_list()
                    return str(name)
            if len(ids) < MAX_LISTED:
                self._restart_list()
                return ""
        return ""

    def _restart_list(self) -> None:
        self.position.after, self.position.began = 0, time.monotonic()

    def _listed(self, limits: Mapping[str, float]) -> list[int]:
        """Return the ids of the next page of available results."""
        page = {"fields": "id", "limit": MAX_LISTED, "after": self.position.after}
        listed = self._get(self._url(f"/results?{urlencode(page | dict(limits))}")).get("results")
        rows = listed if isinstance(listed, list) else []
        ids = [row.get("id") if isinstance(row, dict) else None for row in rows]
        if not all(type(result_id) is int for result_id in ids):
            raise PoolError("the pool sent no list of results")
        return [result_id for result_id in ids if result_id is not None]

    def _claim_one(self, result_id: int) -> dict[str, Any]:
        """Claim a result, and return the answer; it has the result's name if it was claimed."""
        url = self._url(f"/results/{result_id}/claim")
        response = self.transport.post_json(url, b"", token=self.token)
        if response.status not in {_OK, _CONFLICT, _NOT_FOUND}:
            raise PoolError(f"a claim was answered with HTTP {response.status}")
        answer = _object(response.content)
        if response.status != _OK:
            return {"reason": answer.get("reason")}
        return {"name": _name_of(answer)}

    def report(self, usage: Mapping[str, Mapping[str, float]]) -> None:
        """Report the usage of running results, by their names. Unknown results are left out.

        Raises PoolError and UnreachableError.
        """
        if usage.keys() - self.ids.keys():
            self._read_ids()
        for name, values in usage.items():
            if name in self.ids:
                self._report_one(name, values)

    def _read_ids(self) -> None:
        """Replace the ids by those of the results in progress on this host."""
        listed = self._get(self._url("/claimed")).get("results")
        rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
        ids = {row.get("name"): row.get("id") for row in rows}
        self.ids.clear()
        self.ids.update(
            {name: id_ for name, id_ in ids.items() if type(name) is str and type(id_) is int}
        )

    def _report_one(self, name: str, values: Mapping[str, float]) -> None:
        # A program can report any fraction, but the server takes only those from 0 to 1.
        body = dict(values)
        if "fraction_done" in body:
            body["fraction_done"] = min(1.0, max(0.0, body["fraction_done"]))
        response = self.transport.post_json(
            self._url(f"/results/{self.ids[name]}/report_usage"),
            json.dumps(body).encode(),
            token=self.token,
        )
        if response.status == _NOT_FOUND:
            # The result has ended on the server, for example by a time-out.
            del self.ids[name]
        elif response.status != _OK:
            raise PoolError(f"a report was answered with HTTP {response.status}")

    def _url(self, path: str) -> str:
        return urljoin(self.project, f"api/v1/pool{path}")

    def _get(self, url: str) -> dict[str, Any]:
        return _checked(self.transport.get(url, has_credentials=True, token=self.token))


def _checked(response: Response) -> dict[str, Any]:
    """Return the object in a response. Raises PoolError for another status than 200."""
    if response.status >= _SERVER_ERROR:
        raise PoolAwayError(f"HTTP {response.status}")
    if response.status != _OK:
        raise PoolError(f"HTTP {response.status}{_hint(response.status)}")
    content = _parsed(response.content)
    if not isinstance(content, dict):
        raise PoolError("the answer is not an object")
    return content


def _object(content: bytes) -> dict[str, Any]:
    """Return the object in a JSON text, or an empty one if the text is something else."""
    answer = None
    with suppress(PoolError):
        answer = _parsed(content)
    return answer if isinstance(answer, dict) else {}


def _parsed(content: bytes) -> object:
    """Return the value of a JSON text. Raises PoolError if the text is no JSON or too deep."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise PoolError("the answer is not JSON") from error


def _name_of(claimed: object) -> str:
    """Return the name of a claimed result. Raises PoolError if it has no valid name."""
    name = claimed.get("name") if isinstance(claimed, dict) else None
    if not (isinstance(name, str) and 0 < len(name) <= _MAX_NAME_LENGTH):
        raise PoolError("the pool sent no name of the claimed result")
    return name


def _hint(status: int) -> str:
    if status in _REFUSED:
        return " (the host is not enrolled; ask for a token: manage.py pool enroll HOST)"
    return " (too many requests)" if status == _TOO_MANY else ""


def retry_seconds(error: PoolError | UnreachableError, failures: int) -> float:
    """Return the longest wait before the next request, after `failures` failed ones.

    A refusal lasts until staff enroll the host, but an outage ends by itself.
    """
    is_refused = isinstance(error, PoolError) and not isinstance(error, PoolAwayError)
    longest = _REFUSED_SECONDS if is_refused else _MAX_RETRY_SECONDS
    return float(min(longest, 0.5 * 2 ** min(failures, 10)))


class PoolWatcher:
    """A thread that waits for the cancellations of one project, and queues events."""

    def __init__(
        self,
        link: PoolLink,
        queue: Callable[[events.Event], None],
        display: Lines,
        now: Callable[[], float],
    ) -> None:
        self._link, self._queue, self._display, self._now = link, queue, display, now
        self._stopping = threading.Event()
        self._said = ""

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True, name="pool").start()

    def stop(self) -> None:
        """End the thread after its current request."""
        self._stopping.set()

    def _run(self) -> None:
        url, cursor, failures = "", "", 0
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                url = url or self._link.wait_url()
                new, names = self._link.cancelled(url, cursor)
            except (PoolError, UnreachableError) as error:
                failures += 1
                # Without a cursor, the next answer has all cancellations, and comes at once.
                url = cursor = ""
                self._say(f"{self._link.project}: no cancellations from the pool: {error}")
                spread = 0.5 + random() / 2  # noqa: S311 - not used for security
                self._stopping.wait(retry_seconds(error, failures) * spread)
                continue
            if failures:
                self._say(f"{self._link.project}: cancellations from the pool arrive again")
                self._said = ""
            failures = 0
            if names:
                self._queue(
                    events.AbortsReceived(self._now(), project=self._link.project, names=names)
                )
            is_early = time.monotonic() - began < _MIN_WAIT_SECONDS
            if is_early and new == cursor:
                self._stopping.wait(_POLL_SECONDS)
            cursor = new

    def _say(self, text: str) -> None:
        """Print a text unless it is the same as the last one."""
        if text and text != self._said:
            self._display.print_line(text, self._now())
        self._said = text


class UsageReporter:
    """Reports the usage of running results in a thread, one batch of reports at a time."""

    def __init__(self, link: PoolLink) -> None:
        self._link = link
        self._is_busy = threading.Lock()

    def report(self, usage: Mapping[str, Mapping[str, float]]) -> None:
        """Start a thread that reports; without effect while an earlier thread still runs.

        Reports that fail are lost: the next ones have newer values.
        """
        if self._is_busy.acquire(blocking=False):
            threading.Thread(target=self._report, args=(usage,), daemon=True, name="usage").start()

    def _report(self, usage: Mapping[str, Mapping[str, float]]) -> None:
        try:
            with suppress(PoolError, UnreachableError):
                self._link.report(usage)
        finally:
            self._is_busy.release()
