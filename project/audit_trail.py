"""Attributes audit entries of a web request to its address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.people import audit

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponse


class AuditTrail:
    """Middleware: audit entries of a request get the caller's address.

    The account is added where it is authenticated: `BearerToken` of the API, the admin site.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with audit.acting(address=request.META.get("REMOTE_ADDR")):
            return self._get_response(request)
