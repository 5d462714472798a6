"""Supports `Idempotency-Key`: a repeated request returns the first response."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from django.core.files.uploadedfile import UploadedFile
from django.utils import timezone
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response

from scheduler.people import idempotency

if TYPE_CHECKING:
    from rest_framework.request import Request

    from scheduler.models import Account

Handler = TypeVar("Handler", bound=Callable[..., Any])

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replay"


def with_idempotency_key(handler: Handler) -> Handler:
    """Return a POST handler that supports `Idempotency-Key`.

    `handler` must return a `Response` for success and raise an exception for an error.
    """

    @functools.wraps(handler)
    def wrapper(view: Any, request: Request, *args: Any, **kwargs: Any) -> Response:
        return once(request, lambda: handler(view, request, *args, **kwargs))

    return wrapper  # type: ignore[return-value]


def once(request: Request, handle: Callable[[], Response]) -> Response:
    """Return the response of `handle`, or the stored response if the key was used before.

    With a key, `handle` runs in the transaction that stores the key and the response.  Raises the
    errors of `idempotency.once`.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return handle()
    # Computed before the claim, so that an invalid body does not use up the key.
    request_hash = digest_of(request)

    def act() -> tuple[int, dict[str, Any]]:
        response = handle()
        stored = {"body": json.loads(JSONRenderer().render(response.data) or b"null")}
        if location := response.headers.get("Location"):
            stored["location"] = location
        return response.status_code, stored

    outcome = idempotency.once(
        act,
        account=cast("Account", request.user),
        key=key,
        request_hash=request_hash,
        now=timezone.now(),
    )
    return to_response(outcome)


def stored_response(request: Request, digest: Callable[[], str] | None = None) -> Response | None:
    """Return the stored response of an earlier request with the same key, or None.

    A handler with slow preparation calls this before the preparation.  `digest` returns the hash of
    the request, by default `digest_of`.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return None
    outcome = idempotency.earlier_outcome(
        account=cast("Account", request.user),
        key=key,
        request_hash=digest or (lambda: digest_of(request)),
    )
    return None if outcome is None else to_response(outcome)


def to_response(outcome: idempotency.Outcome) -> Response:
    """Return the response for an outcome, whose `answer` is ``{body, location?}``."""
    headers = {REPLAYED: "true"} if outcome.replayed else {}
    if location := outcome.answer.get("location"):
        headers["Location"] = location
    return Response(outcome.answer["body"], status=outcome.status, headers=headers)


def digest_of(request: Request) -> str:
    """Return the SHA-256, in hex, of the method, the URL and the parsed body."""
    hasher = hashlib.sha256(f"{request.method} {request.get_full_path()}\n".encode())
    data = request.data
    if hasattr(data, "lists"):
        # The fields and files are hashed, because a repeated multipart form has a new boundary.
        for name, values in sorted(data.lists()):
            for value in values:
                _add(hasher, name, value)
    else:
        hasher.update(json.dumps(data, sort_keys=True).encode())
    return hasher.hexdigest()


def _add(hasher: Any, name: str, value: object) -> None:
    hasher.update(f"{name}\n".encode())
    if isinstance(value, UploadedFile):
        inner = hashlib.sha256(str(value.name).encode())
        for chunk in value.chunks():
            inner.update(chunk)
        value.seek(0)
        hasher.update(inner.digest())
    else:
        hasher.update(hashlib.sha256(str(value).encode()).digest())
