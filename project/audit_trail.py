"""Attributes what a web request changes to its address, in the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.operations import audit

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponse


class AuditTrail:
    """Middleware: inside a request the audit log knows the caller's address.

    Who calls is added by the edge that finds out: `BearerToken` of the API, the admin site.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request; what it records names its address."""
        with audit.acting(address=request.META.get("REMOTE_ADDR")):
            return self._get_response(request)
