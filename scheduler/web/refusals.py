"""Returns 429 for a throttled log-in, and 503 if the password queue is full."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from scheduler.people.hashing import RETRY_AFTER_SECONDS, HashQueueFull
from scheduler.people.throttle import TooManyAttempts
from scheduler.web.texts import translated


class RefusalMiddleware:
    """Converts `TooManyAttempts` and `HashQueueFull` from any view to a plain-text response.

    A page with a form that shows the refusal keeps its content and gets the status.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_template_response(
        self, _request: HttpRequest, response: TemplateResponse
    ) -> TemplateResponse:
        """Set the status of a page whose form stored a refusal (`RefusableForm`)."""
        refusal = getattr((response.context_data or {}).get("form"), "refusal", None)
        if refusal is not None:
            response.status_code, seconds = _status(refusal)
            response["Retry-After"] = str(seconds)
        return response

    def process_exception(self, _request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Return the response for a refusal, or None for other exceptions."""
        if not isinstance(error, TooManyAttempts | HashQueueFull):
            return None
        status, seconds = _status(error)
        return HttpResponse(
            translated(str(error)),
            status=status,
            content_type="text/plain; charset=utf-8",
            headers={"Retry-After": str(seconds)},
        )


def _status(refusal: TooManyAttempts | HashQueueFull) -> tuple[int, int]:
    """Return the HTTP status of a refusal, and the seconds after which to try again."""
    if isinstance(refusal, TooManyAttempts):
        return 429, refusal.seconds
    return 503, RETRY_AFTER_SECONDS
