"""Assimilates by sending the answer to a web address as JSON, signed.

The body is the same at every try; the ``Idempotency-Key`` is the workunit's key, by which the
receiver recognises a repeat; ``X-Manyhands-Signature`` is ``sha256=`` and the HMAC-SHA256 of the
body with the app's secret.  2xx: taken.  408, 425, 429, 5xx and trouble of the network: tried again
later.  Everything else, a redirection included, is a failure.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from daemons.science import checking, worker
from daemons.science.interfaces import BadOptions, TransientScienceError

if TYPE_CHECKING:
    from datetime import timedelta

    from daemons.science.interfaces import Assimilation, Output

#: What may be otherwise next time, besides 5xx.
_PASSING = frozenset({408, 425, 429})
_SERVER_ERROR = 500
_EXCERPT = 2000
_SHORTEST_SECRET = 16
_KNOWN = {
    "url": checking.text,
    "secret": checking.text,
    "timeout": checking.number(0.1, 600),
    "max_bytes": checking.number(0, 100_000_000),
    "failed": checking.one_of("skip", "send"),
}


class WebhookRefused(Exception):
    """The receiver refused for good; the message has the status and the start of its answer."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address, and how it is spoken to; outputs longer than `max_bytes` are only named."""

    url: str
    secret: str
    time_limit: timedelta
    timeout: float = 10
    max_bytes: float = 1_000_000
    failed: str = "send"
    transactional: ClassVar[bool] = False

    def __call__(self, assimilation: Assimilation) -> None:
        """Send it from the worker, which also ends an answer that comes drop by drop."""
        if assimilation.failed and self.failed == "skip":
            return
        body = json.dumps(self._message(assimilation), sort_keys=True).encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Manyhands",
            "Idempotency-Key": assimilation.key,
            "X-Manyhands-Signature": signature(body, self.secret),
        }
        worker.call(
            "daemons.science.webhook:post",
            *(self.url, body, headers, self.timeout),
            time_limit=self.time_limit,
        )

    def _message(self, assimilation: Assimilation) -> dict[str, Any]:
        return {
            "key": assimilation.key,
            "workunit": assimilation.workunit_name,
            "workunit_id": assimilation.workunit_id,
            "app": assimilation.app,
            "batch_id": assimilation.batch_id,
            "meta": assimilation.meta,
            "failed": assimilation.failed,
            "errors": list(assimilation.errors),
            "cancel_reason": assimilation.cancel_reason,
            "canonical_result": assimilation.canonical_result_name,
            "outputs": [self._output(output) for output in assimilation.outputs],
        }

    def _output(self, output: Output) -> dict[str, Any]:
        nbytes = output.path.stat().st_size
        known = {"position": output.position, "open_name": output.open_name, "nbytes": nbytes}
        if nbytes > self.max_bytes:
            return known
        data = output.path.read_bytes()
        try:
            return {**known, "encoding": "utf-8", "content": data.decode()}
        except UnicodeDecodeError:
            content = base64.b64encode(data).decode()
            return {**known, "encoding": "base64", "content": content}


def make(_argument: str, given: object, time_limit: timedelta) -> Webhook:
    """A webhook by an app's options; raises `BadOptions`."""
    read = checking.checked("webhook", given, _KNOWN, required=("url", "secret"))
    parts = urlsplit(read["url"])
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise BadOptions(f"{read['url']!r} is no web address. Hint: it begins with https://.")
    if len(read["secret"]) < _SHORTEST_SECRET:
        raise BadOptions(
            f"The secret is shorter than {_SHORTEST_SECRET} characters. Hint: openssl rand -hex 32."
        )
    return Webhook(time_limit=time_limit, **read)


def signature(body: bytes, secret: str) -> str:
    """What the receiver computes, too, and compares."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def post(url: str, body: bytes, headers: dict[str, str], timeout: float) -> None:
    """Send it once; called in the worker.  Raises `WebhookRefused`, `TransientScienceError`."""
    request = Request(url, data=body, headers=headers, method="POST")  # noqa: S310 - checked by make()
    try:
        with build_opener(_NoRedirection).open(request, timeout=timeout) as answer:
            answer.read(_EXCERPT)
    except HTTPError as error:
        with error:
            _refused(url, error)
    except (URLError, OSError, http.client.HTTPException) as error:
        raise TransientScienceError(f"{url} cannot be reached: {error}") from error


def _refused(url: str, error: HTTPError) -> NoReturn:
    said = error.read(_EXCERPT).decode(errors="replace")
    sentence = f"{url} answered {error.code} {error.reason}.\n{said}".rstrip()
    if error.code >= _SERVER_ERROR or error.code in _PASSING:
        raise TransientScienceError(sentence)
    raise WebhookRefused(sentence)


class _NoRedirection(HTTPRedirectHandler):
    """A redirected POST would arrive as a GET: refuse it."""

    def redirect_request(self, *_args: Any, **_options: Any) -> None:
        return None
