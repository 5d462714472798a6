"""Refuses text that no part of the project can store or look up."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import unquote_to_bytes

from django.core.exceptions import BadRequest
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from scheduler.api.failures import bad_request

NUL = "\0"


class RefuseNul:
    """Answers 400 to a path or query with a NUL character, and drops cookies that contain one.

    PostgreSQL's text holds every character but this one: a value that reaches a statement raises an
    error there.  Form fields and JSON are validated where they are read.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        query = request.META.get("QUERY_STRING", "")
        if NUL in request.path_info or ("%00" in query and b"\0" in unquote_to_bytes(query)):
            return bad_request(request, BadRequest())
        # A quoted cookie may hold any character: `sessionid="...\000"`.
        if "\\0" in request.META.get("HTTP_COOKIE", ""):
            for name, value in list(request.COOKIES.items()):
                if NUL in value:
                    del request.COOKIES[name]
        return self.get_response(request)
