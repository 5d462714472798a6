"""Error responses of the API: problem+json (RFC 9457) with a code and a hint."""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response

from scheduler.people import idempotency
from scheduler.people.hashing import HashQueueFull
from scheduler.people.submitters import NotAllowed
from scheduler.people.throttle import TooManyAttempts
from scheduler.storage import StoreError

log = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"
#: `Retry-After` of a 503: the database or the file store is unavailable, or all slots are in use.
RETRY_AFTER_SECONDS = 5
_HINT = re.compile(r"\s*\bHint:\s*")
_UNAVAILABLE = HTTPStatus.SERVICE_UNAVAILABLE


class Problem(exceptions.APIException):
    """An error response: a code for programs, a detail and a hint for people, errors by field."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        hint: str = "",
        errors: list[dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(detail, code)
        self.status_code = status
        self.body = problem(status, code, detail, hint=hint, errors=errors)


#: Exceptions that any operation may raise, with the status and code of their responses.
_REFUSALS: tuple[tuple[type[Exception], int, str], ...] = (
    (NotAllowed, 403, "not_allowed"),
    (PermissionDenied, 403, "not_allowed"),
    (idempotency.BadKey, 400, "bad_idempotency_key"),
    (idempotency.KeyReused, 422, "idempotency_key_reused"),
    (idempotency.StillUnderWay, 409, "still_under_way"),
    (RequestDataTooBig, 413, "too_long"),
    (SuspiciousOperation, 400, "bad_request"),
)

_FULL_DISK = {errno.ENOSPC, errno.EDQUOT}


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    hint: str = "",
    errors: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return the body of a response; a ``Hint:`` in `detail` becomes the field `hint`."""
    body: dict[str, Any] = {
        "type": f"urn:manyhands:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        **split_hint(detail, hint=hint),
    }
    if errors:
        body["errors"] = [
            error | split_hint(error["detail"], hint=error.get("hint", "")) for error in errors
        ]
    return body


def split_hint(sentence: str, *, hint: str = "") -> dict[str, str]:
    """Return ``{detail, hint?}``; `hint` takes precedence over hints in the sentence.

    >>> split_hint("It is full. Hint: wait. Hint: or go.")
    {'detail': 'It is full.', 'hint': 'wait. or go.'}
    """
    detail, *hints = _HINT.split(sentence)
    hint = hint or " ".join(hints)
    return {"detail": detail} | ({"hint": hint} if hint else {})


def disk_full() -> Problem:
    """Return the 503 problem for a full disk."""
    return Problem(
        503, "disk_full", "The server's disk is full. Hint: send the request again later."
    )


def answer_exception(error: Exception, context: dict[str, Any]) -> Response | None:  # noqa: ARG001, PLR0911  Django REST framework's signature; one return for each kind
    """Return the response for an exception of a view; None for exceptions that are bugs."""
    if isinstance(error, Problem):
        if error.status_code == _UNAVAILABLE:
            return _retry_later(error.body)
        return _response(error.body)
    for kind, status, code in _REFUSALS:
        if isinstance(error, kind):
            return _response(problem(status, code, str(error) or "This is not allowed."))
    if isinstance(error, TooManyAttempts):
        answer = _response(problem(429, "throttled", str(error)))
        answer["Retry-After"] = str(error.seconds)
        return answer
    if isinstance(error, Http404):
        return _response(
            problem(404, "not_found", "It does not exist, or it belongs to another account.")
        )
    if isinstance(error, exceptions.ValidationError):
        errors = list(_faults(error.detail, ""))
        return _response(problem(400, "invalid", _summary(errors), errors=errors))
    if isinstance(error, exceptions.APIException):
        return _of_rest(error)
    return _temporary_problem(error)


def _temporary_problem(error: Exception) -> Response | None:
    """Return a 503 if a later request may succeed, else None."""
    if isinstance(error, OperationalError | InterfaceError):
        detail = "The database is unavailable. Hint: send the request again later."
        body = problem(503, "database_away", detail)
    elif isinstance(error, HashQueueFull):
        body = problem(503, "too_many_log_ins", str(error))
    elif isinstance(error, StoreError):
        detail = "The file store is unavailable. Hint: send the request again later."
        body = problem(503, "store_away", detail)
    elif isinstance(error, OSError) and error.errno in _FULL_DISK:
        body = disk_full().body
    else:
        return None
    log.warning("api_request_deferred", extra={"error": str(error).strip()})
    return _retry_later(body)


def _retry_later(body: dict[str, Any]) -> Response:
    answer = _response(body)
    answer["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return answer


def _of_rest(error: exceptions.APIException) -> Response:
    code = str(getattr(error, "default_code", "error"))
    answer = _response(problem(error.status_code, code, str(error.detail)))
    if header := getattr(error, "auth_header", None):
        answer["WWW-Authenticate"] = header
    if wait := getattr(error, "wait", None):
        answer["Retry-After"] = str(int(wait))
    return answer


def _summary(errors: list[dict[str, Any]]) -> str:
    first = errors[0] if errors else {"detail": ""}
    where = first.get("pointer", "").lstrip("/")
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"The request is not valid: {f'{where}: ' if where else ''}{first['detail']}{more}"


def _faults(detail: Any, pointer: str) -> Iterator[dict[str, Any]]:
    if isinstance(detail, dict):
        for name, inner in detail.items():
            if name in {"non_field_errors", "__all__"}:
                yield from _faults(inner, pointer)
            else:
                part = str(name).replace("~", "~0").replace("/", "~1")
                yield from _faults(inner, f"{pointer}/{part}")
    elif isinstance(detail, list | tuple) and any(isinstance(item, dict | list) for item in detail):
        for index, inner in enumerate(detail):
            yield from _faults(inner, f"{pointer}/{index}")
    elif isinstance(detail, list | tuple):
        for inner in detail:
            yield _fault(pointer, str(inner))
    else:
        yield _fault(pointer, str(detail))


def _fault(pointer: str, sentence: str) -> dict[str, Any]:
    return {"pointer": pointer, **split_hint(sentence)}


def _response(body: dict[str, Any]) -> Response:
    return Response(body, status=body["status"], content_type=CONTENT_TYPE)
