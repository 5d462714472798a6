"""What is said where no endpoint can: of a bug, and of a request that is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import HttpResponseBase, JsonResponse
from django.views import defaults

from scheduler.api.http.problems import CONTENT_TYPE, problem

if TYPE_CHECKING:
    from django.http import HttpRequest

_PREFIX = "/api/v1/"


def server_error(request: HttpRequest) -> HttpResponseBase:
    """Answer 500: the API as a problem, pages as ever; the log has the traceback."""
    if not request.path.startswith(_PREFIX):
        return defaults.server_error(request)
    said = "This is a mistake of the server's. Hint: tell the project's staff when it happened."
    return JsonResponse(problem(500, "server_error", said), status=500, content_type=CONTENT_TYPE)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Answer 400 to what Django itself refuses, such as a host that is not the project's."""
    if not request.path.startswith(_PREFIX):
        return defaults.bad_request(request, exception)
    said = "The request is none that this server takes. Hint: is it sent to the project's own URL?"
    return JsonResponse(problem(400, "bad_request", said), status=400, content_type=CONTENT_TYPE)
