"""Returns 429 for a throttled log-in, and 503 if the password queue is full."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from scheduler.people.hashing import RETRY_AFTER_SECONDS, HashQueueFull
from scheduler.people.throttle import TooManyAttempts


class RefusalMiddleware:
    """Converts `TooManyAttempts` and `HashQueueFull` from any view to a plain-text response."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, _request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Return the response for a refusal, or None for other exceptions."""
        if isinstance(error, TooManyAttempts):
            status, seconds = 429, error.seconds
        elif isinstance(error, HashQueueFull):
            status, seconds = 503, RETRY_AFTER_SECONDS
        else:
            return None
        return HttpResponse(
            str(error),
            status=status,
            content_type="text/plain; charset=utf-8",
            headers={"Retry-After": str(seconds)},
        )
