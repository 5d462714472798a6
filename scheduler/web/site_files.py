"""Serves `/robots.txt` and `/favicon.ico` for crawlers and browsers."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.templatetags.static import static
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

#: Paths for programs and staff, without content for search engines.
DISALLOWED_PATHS = ("/account/", "/admin/", "/api/", "/cgi/", "/download/", "/upload/", "/*.php")
_a_day = cache_control(public=True, max_age=86_400)


@require_safe
@_a_day
def robots_txt(_request: HttpRequest) -> HttpResponse:
    """Return robots.txt, which lists the paths that crawlers must not visit (RFC 9309)."""
    lines = ["User-agent: *", *(f"Disallow: {path}" for path in DISALLOWED_PATHS)]
    return HttpResponse("\n".join(lines) + "\n", content_type="text/plain; charset=utf-8")


@require_safe
@_a_day
def favicon(_request: HttpRequest) -> HttpResponse:
    """Redirect to the icon, an SVG file."""
    return HttpResponseRedirect(static("scheduler/favicon.svg"))
