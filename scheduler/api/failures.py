"""Builds the responses for bugs (500) and requests that Django refuses (400)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import HttpResponseBase, JsonResponse
from django.views import defaults

from scheduler.api.http.problems import CONTENT_TYPE, problem

if TYPE_CHECKING:
    from django.http import HttpRequest

_PREFIX = "/api/v1/"


def server_error(request: HttpRequest) -> HttpResponseBase:
    """Return the 500 response, with a problem as its body under `/api/v1/`."""
    if not request.path.startswith(_PREFIX):
        return defaults.server_error(request)
    detail = "The server has an internal error. Hint: tell the project's staff when it happened."
    return JsonResponse(problem(500, "server_error", detail), status=500, content_type=CONTENT_TYPE)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Return the 400 response to a request that Django refuses, such as an unknown `Host`."""
    if not request.path.startswith(_PREFIX):
        return defaults.bad_request(request, exception)
    detail = "The server refuses this request. Hint: send it to the project's own URL."
    return JsonResponse(problem(400, "bad_request", detail), status=400, content_type=CONTENT_TYPE)
