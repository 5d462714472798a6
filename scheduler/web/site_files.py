"""`/robots.txt` and `/favicon.ico`, which crawlers and browsers request by themselves."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

#: Paths for programs and staff; crawling them costs time and finds nothing for people.
NOT_FOR_CRAWLERS = ("/admin/", "/api/", "/cgi/", "/download/", "/upload/", "/*.php")
_FAVICON = Path(__file__).parent / "static" / "scheduler" / "favicon.svg"
_a_day = cache_control(public=True, max_age=86_400)


@require_safe
@_a_day
def robots_txt(_request: HttpRequest) -> HttpResponse:
    """Answer with what crawlers leave out (RFC 9309)."""
    lines = ["User-agent: *", *(f"Disallow: {path}" for path in NOT_FOR_CRAWLERS)]
    return HttpResponse("\n".join(lines) + "\n", content_type="text/plain; charset=utf-8")


@require_safe
@_a_day
def favicon(_request: HttpRequest) -> HttpResponse:
    """Answer with the icon as SVG, whatever the name `.ico` suggests."""
    return HttpResponse(_icon(), content_type="image/svg+xml")


@cache
def _icon() -> bytes:
    return _FAVICON.read_bytes()
