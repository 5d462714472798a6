"""Checks for nginx whether a caller may send a body, before nginx reads the body.

nginx calls the view `admission` by `auth_request`, with the caller's `Authorization` header.  The
headers `X-Original-Method` and `X-Original-URI` contain the method and URL of the caller's request.
The response is 204 if the endpoint would read the body.  Otherwise, the response is 401 if the
caller is not authenticated, 503 while the database is unreachable, and 403 for other errors.  The
header `X-Problem` contains the problem that the endpoint would return, as JSON in ASCII.
"""

from __future__ import annotations

import json
from copy import copy
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from django.http import Http404, HttpResponse
from django.urls import path, resolve
from django.views.decorators.csrf import csrf_exempt
from rest_framework.views import APIView

from scheduler.api.authentication import BearerToken, required_access
from scheduler.api.http.openapi_operation import Scope
from scheduler.api.http.problems import answer_exception
from scheduler.boinc.rules.addresses import collapse_slashes
from scheduler.people import submitters

if TYPE_CHECKING:
    from django.http import HttpRequest

#: Maximum number of characters of `X-Problem`, because nginx reads response headers into a buffer
#: of 4 KiB.
MAX_PROBLEM = 2000
_REFUSALS = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.SERVICE_UNAVAILABLE})


@csrf_exempt
def admission(request: HttpRequest) -> HttpResponse:
    """Return 204 if the caller may send a body to the URL in `X-Original-URI`, else an error."""
    try:
        _require_admission(request)
    except Exception as error:
        answer = answer_exception(error, {})
        if answer is None:
            raise
        status = answer.status_code if answer.status_code in _REFUSALS else HTTPStatus.FORBIDDEN
        problem = json.dumps({**answer.data, "status": int(status)})[:MAX_PROBLEM]
        headers = {"Cache-Control": "no-store", "X-Problem": problem}
        if status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = BearerToken().authenticate_header(cast("Any", request))
        return HttpResponse(status=status, headers=headers)
    return HttpResponse(status=HTTPStatus.NO_CONTENT, headers={"Cache-Control": "no-store"})


def _require_admission(request: HttpRequest) -> None:
    """Raise the error that the endpoint would raise before it reads a body."""
    path = request.headers.get("X-Original-URI", "").partition("?")[0]
    match = resolve(collapse_slashes(path))
    view_class = getattr(match.func, "cls", None)
    if view_class is None or not issubclass(view_class, APIView):
        raise Http404
    original = copy(request)
    original.method = request.headers.get("X-Original-Method", "GET")
    view: Any = view_class(**getattr(match.func, "initkwargs", {}))
    view.args, view.kwargs = match.args, match.kwargs
    view.request = view.initialize_request(original, *match.args, **match.kwargs)
    if original.method.lower() not in view.http_method_names or not hasattr(
        view, original.method.lower()
    ):
        raise Http404
    view.perform_authentication(view.request)
    view.check_permissions(view.request)
    access = required_access(view, original.method)
    if view.request.auth is None:
        # Operations without authentication have small bodies, which nginx does not check here.
        view.permission_denied(view.request)
    if access is Scope.SUBMIT:
        submitters.require_submitter(cast("Any", view.request.user))


urlpatterns = [path("api/admission", admission)]
