"""Refuses NUL characters, limits what pages load, attributes audit entries."""

from __future__ import annotations

from collections.abc import Callable

from csp.middleware import CSPMiddleware
from django.core.exceptions import BadRequest
from django.db import DataError
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from scheduler.api.failures import bad_request
from scheduler.people import audit

NUL = "\0"


class RefuseNul:
    """Answers 400 if an SQL parameter contains a NUL character, and drops cookies with NUL.

    PostgreSQL can store all characters except NUL.  Some views validate their input and return 400
    themselves; this middleware covers all other paths, parameters and fields.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        # A quoted cookie may contain any character: `sessionid="...\000"`.
        if "\\0" in request.META.get("HTTP_COOKIE", ""):
            for name, value in list(request.COOKIES.items()):
                if NUL in value:
                    del request.COOKIES[name]
        return self.get_response(request)

    def process_exception(
        self, request: HttpRequest, exception: Exception
    ) -> HttpResponseBase | None:
        """Return the response 400 if psycopg refused a NUL character in a parameter, else None."""
        if isinstance(exception, DataError) and "NUL (0x00)" in str(exception):
            return bad_request(request, BadRequest())
        return None


class PagePolicy(CSPMiddleware):
    """Adds the header `Content-Security-Policy` to pages; replies to clients do not need it."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """Add the policy of `CONTENT_SECURITY_POLICY`, unless the view has set its own."""
        if not response.get("Content-Type", "").startswith("text/html"):
            return response
        return super().process_response(request, response)


class AuditTrail:
    """Adds the client's address to the audit entries of a request.

    The account is added where it is authenticated, which is `BearerToken` for the API, or the admin
    site.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with audit.acting(address=request.META.get("REMOTE_ADDR")):
            return self._get_response(request)
