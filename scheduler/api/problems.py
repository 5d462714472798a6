"""How the API says what is wrong: problem+json (RFC 9457), with a hint."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response

from scheduler.operations.submitters import NotAllowed

CONTENT_TYPE = "application/problem+json"


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


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    hint: str = "",
    errors: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """The body: a ``Hint:`` at the end of the sentence becomes a field of its own."""
    sentence, _, said = detail.partition(" Hint: ")
    body: dict[str, Any] = {
        "type": f"urn:manyhands:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": sentence,
    }
    if hint or said:
        body["hint"] = hint or said
    if errors:
        body["errors"] = errors
    return body


def answer_exception(error: Exception, context: dict[str, Any]) -> Response | None:  # noqa: ARG001  Django REST's shape
    """Put an exception of a view into words; None for those that are bugs."""
    if isinstance(error, Problem):
        return _response(error.body)
    if isinstance(error, NotAllowed | PermissionDenied):
        return _response(problem(403, "not_allowed", str(error) or "This is not allowed."))
    if isinstance(error, Http404):
        return _response(problem(404, "not_found", "There is no such thing, or it is not yours."))
    if isinstance(error, exceptions.ValidationError):
        errors = list(_faults(error.detail, ""))
        return _response(problem(400, "invalid", "The request is not valid.", errors=errors))
    if isinstance(error, exceptions.APIException):
        code = str(getattr(error, "default_code", "error"))
        answer = _response(problem(error.status_code, code, str(error.detail)))
        if header := getattr(error, "auth_header", None):
            answer["WWW-Authenticate"] = header
        if wait := getattr(error, "wait", None):
            answer["Retry-After"] = str(int(wait))
        return answer
    return None


def _faults(detail: Any, pointer: str) -> Any:  # noqa: ANN401  a tree of lists, dicts and texts
    if isinstance(detail, dict):
        for name, inner in detail.items():
            yield from _faults(inner, f"{pointer}/{name}")
    elif isinstance(detail, list | tuple) and any(isinstance(one, dict | list) for one in detail):
        for index, inner in enumerate(detail):
            yield from _faults(inner, f"{pointer}/{index}")
    elif isinstance(detail, list | tuple):
        for inner in detail:
            yield {"pointer": pointer, "detail": str(inner)}
    else:
        yield {"pointer": pointer, "detail": str(detail)}


def _response(body: dict[str, Any]) -> Response:
    return Response(body, status=body["status"], content_type=CONTENT_TYPE)
