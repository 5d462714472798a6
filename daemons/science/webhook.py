"""Assimilates by posting the finished workunit to a URL as signed JSON.

The body is the same in every attempt.  The ``Idempotency-Key`` is the workunit's key, by which the
receiver recognizes a repeated request.  ``X-Manyhands-Signature`` is ``sha256=`` and the
HMAC-SHA256 of the body with the app's secret.  Status 2xx means that the workunit is assimilated.
Status 408, 425, 429, 5xx and network errors are retried later.  Every other status, including
redirects, is a failure.

The daemon itself sends the request, and only to public addresses: hosts of the server's own
networks must be listed in the setting `WEBHOOK_HOSTS` (`scheduler.files.fetching.post`).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings

from daemons.science import checking
from daemons.science.interfaces import BadOptions, TransientScienceError
from scheduler.files import fetching
from scheduler.files.rules import sources

if TYPE_CHECKING:
    from datetime import timedelta

    from daemons.science.interfaces import Assimilation, Output

#: The statuses that are transient, besides 5xx.
_TRANSIENT = frozenset({408, 425, 429})
_OK, _REDIRECTS, _SERVER_ERROR = 200, 300, 500
_MIN_SECRET_LENGTH = 16
_KNOWN = {
    "url": checking.text,
    "secret": checking.text,
    "timeout": checking.number(0.1, 600),
    "max_bytes": checking.number(0, 100_000_000),
    "failed": checking.one_of("skip", "send"),
}


class WebhookRefused(Exception):
    """The receiver refused the workunit permanently, or its address is not allowed."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """An assimilator that posts workunits to a URL.

    Outputs longer than `max_bytes` are sent without content.
    """

    url: str
    secret: str
    time_limit: timedelta
    timeout: float = 10
    max_bytes: float = 1_000_000
    failed: str = "send"
    transactional: ClassVar[bool] = False

    def __call__(self, assimilation: Assimilation) -> None:
        """Send the request; raises `WebhookRefused` and `TransientScienceError`."""
        if assimilation.failed and self.failed == "skip":
            return
        body = json.dumps(self._message(assimilation), sort_keys=True).encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Manyhands",
            "Idempotency-Key": assimilation.key,
            "X-Manyhands-Signature": signature(body, self.secret),
        }
        self._post(body, headers)

    def _post(self, body: bytes, headers: dict[str, str]) -> None:
        try:
            answer = fetching.post(
                self.url,
                body,
                headers,
                private_hosts=_private_hosts(),
                timeout=self.timeout,
                seconds=self.time_limit.total_seconds(),
            )
        except sources.BadSource as error:
            raise WebhookRefused(_refusal_text(self.url, error)) from error
        except fetching.SourceFailed as error:
            raise TransientScienceError(f"{self.url} cannot be reached: {error}") from error
        if _OK <= answer.status < _REDIRECTS:
            return
        sentence = (
            f"{self.url} answered {answer.status} {answer.reason}.\n{answer.excerpt}".rstrip()
        )
        if answer.status >= _SERVER_ERROR or answer.status in _TRANSIENT:
            raise TransientScienceError(sentence)
        raise WebhookRefused(sentence)

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
        facts = {"position": output.position, "open_name": output.open_name, "nbytes": nbytes}
        if nbytes > self.max_bytes:
            return facts
        data = output.path.read_bytes()
        try:
            return {**facts, "encoding": "utf-8", "content": data.decode()}
        except UnicodeDecodeError:
            content = base64.b64encode(data).decode()
            return {**facts, "encoding": "base64", "content": content}


def make(options: object, time_limit: timedelta) -> Webhook:
    """Return the webhook of an app's options; raises `BadOptions`."""
    read = checking.checked("webhook", options, _KNOWN, required=("url", "secret"))
    try:
        place = sources.read_web(read["url"])
        _check_literal(place.host)
    except sources.BadSource as error:
        raise BadOptions(_refusal_text(read["url"], error)) from error
    if len(read["secret"]) < _MIN_SECRET_LENGTH:
        raise BadOptions(
            f"The secret has less than {_MIN_SECRET_LENGTH} characters. Hint: openssl rand -hex 32."
        )
    return Webhook(time_limit=time_limit, **read)


def signature(body: bytes, secret: str) -> str:
    """Return the signature of a body, by which the receiver authenticates the request."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def _private_hosts() -> frozenset[str]:
    return frozenset(settings.PROJECT.webhook_hosts)


def _check_literal(host: str) -> None:
    """Raise `BadSource` for a numeric address of the server's own network.

    Names are looked up when a webhook is sent, because their addresses may change.
    """
    try:
        ip_address(host)
    except ValueError:
        return
    sources.check_addresses(host, [host], private_hosts=_private_hosts(), any_private=False)


def _refusal_text(url: str, error: sources.BadSource) -> str:
    """Return the error text of a refused address, with a hint for webhooks."""
    reason = str(error).partition(" Hint:")[0]
    return (
        f"The webhook address {url!r:.200} is not allowed. {reason} "
        "Hint: use a public https:// address, or ask an operator to add its host to WEBHOOK_HOSTS."
    )
