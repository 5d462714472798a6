"""How the API says what is wrong: problem+json (RFC 9457), with a hint."""

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
#: When to come again if the database or the store of files is away, or somebody else is served.
RETRY_AFTER_SECONDS = 5
_HINT = re.compile(r"\s*\bHint:\s*")
_AWAY = HTTPStatus.SERVICE_UNAVAILABLE


class Problem(exceptions.APIException):
    """A refusal with a code for programs, a sentence and a hint for people, and its faults."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        hint: str = "",
        errors: list[dict[str, Any]] | None = None,
    ) -> None:
        """Keep what will be said."""
        super().__init__(detail, code)
        self.status_code = status
        self.body = problem(status, code, detail, hint=hint, errors=errors)


#: What operations refuse for everybody alike: its status and its code.
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
    """The body: a ``Hint:`` at the end of a sentence becomes a field of its own."""
    body: dict[str, Any] = {
        "type": f"urn:manyhands:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        **parted(detail, hint=hint),
    }
    if errors:
        body["errors"] = [one | parted(one["detail"], hint=one.get("hint", "")) for one in errors]
    return body


def parted(said: str, *, hint: str = "") -> dict[str, str]:
    """Part what happened from what to do: ``{detail, hint?}``; a `hint` goes before what is said.

    >>> parted("It is full. Hint: wait. Hint: or go.")
    {'detail': 'It is full.', 'hint': 'wait. or go.'}
    """
    detail, *hints = _HINT.split(said)
    hint = hint or " ".join(hints)
    return {"detail": detail} | ({"hint": hint} if hint else {})


def disk_full() -> Problem:
    """Say that what is sent has no room at this moment."""
    return Problem(
        503, "disk_full", "The server's disk is full. Hint: send the request again later."
    )


def answer_exception(error: Exception, context: dict[str, Any]) -> Response | None:  # noqa: ARG001  Django REST's shape; a kind each
    """Put an exception of a view into words; None for those that are bugs."""
    if isinstance(error, Problem):
        return _later(error.body) if error.status_code == _AWAY else _response(error.body)
    for kind, status, code in _REFUSALS:
        if isinstance(error, kind):
            return _response(problem(status, code, str(error) or "This is not allowed."))
    if isinstance(error, TooManyAttempts):
        answer = _response(problem(429, "throttled", str(error)))
        answer["Retry-After"] = str(error.seconds)
        return answer
    if isinstance(error, Http404):
        return _response(problem(404, "not_found", "There is no such thing, or it is not yours."))
    if isinstance(error, exceptions.ValidationError):
        errors = list(_faults(error.detail, ""))
        return _response(problem(400, "invalid", _summary(errors), errors=errors))
    if isinstance(error, exceptions.APIException):
        return _of_rest(error)
    return _put_off(error)


def _put_off(error: Exception) -> Response | None:
    """What is away may be back soon; None for what is not that."""
    if isinstance(error, OperationalError | InterfaceError):
        said = "The database does not answer at this moment. Hint: send the request again soon."
        body = problem(503, "database_away", said)
    elif isinstance(error, HashQueueFull):
        body = problem(503, "too_many_log_ins", str(error))
    elif isinstance(error, StoreError):
        said = "The store of files takes none at this moment. Hint: send the request again soon."
        body = problem(503, "store_away", said)
    elif isinstance(error, OSError) and error.errno in _FULL_DISK:
        body = disk_full().body
    else:
        return None
    log.warning("api request put off", extra={"error": str(error).strip()})
    return _later(body)


def _later(body: dict[str, Any]) -> Response:
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
    elif isinstance(detail, list | tuple) and any(isinstance(one, dict | list) for one in detail):
        for index, inner in enumerate(detail):
            yield from _faults(inner, f"{pointer}/{index}")
    elif isinstance(detail, list | tuple):
        for inner in detail:
            yield _fault(pointer, str(inner))
    else:
        yield _fault(pointer, str(detail))


def _fault(pointer: str, said: str) -> dict[str, Any]:
    return {"pointer": pointer, **parted(said)}


def _response(body: dict[str, Any]) -> Response:
    return Response(body, status=body["status"], content_type=CONTENT_TYPE)
