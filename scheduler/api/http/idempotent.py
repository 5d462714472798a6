"""`Idempotency-Key`: a request that was carried out is not carried out again."""

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


def obeys_key(handler: Handler) -> Handler:
    """Have a POST obey the header; its answer must be a `Response`, its refusals raised."""

    @functools.wraps(handler)
    def obeying(view: Any, request: Request, *args: Any, **kwargs: Any) -> Response:
        return once(request, lambda: handler(view, request, *args, **kwargs))

    return obeying  # type: ignore[return-value]


def once(request: Request, handle: Callable[[], Response]) -> Response:
    """Answer by `handle`, within a transaction with the key if one is sent, or as at first."""
    key = request.headers.get(HEADER)
    if key is None:
        return handle()
    # Read before the claim: what is no request needs no key.
    request_hash = digest_of(request)

    def act() -> tuple[int, dict[str, Any]]:
        made = handle()
        kept = {"body": json.loads(JSONRenderer().render(made.data) or b"null")}
        if location := made.headers.get("Location"):
            kept["location"] = location
        return made.status_code, kept

    told = idempotency.once(
        act,
        account=cast("Account", request.user),
        key=key,
        request_hash=request_hash,
        now=timezone.now(),
    )
    return answer(told)


def told_before(request: Request) -> Response | None:
    """Answer a repeat as at first, before anything that takes long; None if it is none, so far."""
    key = request.headers.get(HEADER)
    if key is None:
        return None
    told = idempotency.told_before(
        account=cast("Account", request.user), key=key, request_hash=lambda: digest_of(request)
    )
    return None if told is None else answer(told)


def answer(told: idempotency.Told) -> Response:
    """Answer what a request with a key was told; `answer` of it is ``{body, location?}``."""
    headers = {REPLAYED: "true"} if told.replayed else {}
    if location := told.answer.get("location"):
        headers["Location"] = location
    return Response(told.answer["body"], status=told.status, headers=headers)


def digest_of(request: Request) -> str:
    """Digest what is asked for: method, address and what was sent, form by form."""
    hasher = hashlib.sha256(f"{request.method} {request.get_full_path()}\n".encode())
    data = request.data
    if hasattr(data, "lists"):
        # A form: its boundary differs from one sending to the next, its parts do not.
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
