"""Chooses the language of the pages for people: by a cookie, or by the browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase, HttpResponseRedirect
from django.urls import URLPattern, URLResolver, get_resolver, path
from django.utils import translation
from django.utils.cache import patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation.trans_real import parse_accept_lang_header
from django.views import defaults
from django.views.decorators.http import require_POST

#: Paths of programs and staff, below which an unknown address gets an English page.
_OF_PROGRAMS: Final = ("/admin/", "/api/", "/cgi/", "/download/", "/static/", "/upload/")
#: Views of `scheduler.web` whose responses are files for programs.
_FILES: Final = frozenset(
    {
        "account_export",
        "badge_image",
        "favicon",
        "ownership_key",
        "robots_txt",
        "security_txt",
        "statistics_file",
        "status_json",
    }
)
_ONE_YEAR_SECONDS: Final = 365 * 86_400


class LanguageMiddleware:
    """Activates the visitor's language for the pages of `scheduler.web`, and for no other response.

    The API, BOINC's pages and the administration are English for every visitor.  Requests of
    clients for work and files do not pass through Django's middleware (`project.routing`).
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        try:
            response = self._get_response(request)
        finally:
            language = getattr(request, "LANGUAGE_CODE", "")
            if language:
                translation.deactivate()
        if language:
            response.headers.setdefault("Content-Language", language)
            patch_vary_headers(response, ("Accept-Language", "Cookie"))
        return response

    def process_view(self, request: HttpRequest, *_view: object) -> None:
        """Activate the language if the view shows a page for people."""
        match = request.resolver_match
        if match is not None and match.url_name in _page_names():
            _activate(request)


def language_of(request: HttpRequest) -> str:
    """Return the language of the cookie, else the browser's first one that the site offers.

    If no language fits, returns the first of `SITE_LANGUAGES`.
    """
    offered = settings.PROJECT.site_languages
    chosen = request.COOKIES.get(settings.LANGUAGE_COOKIE_NAME, "")
    if chosen in offered:
        return chosen
    for accepted, _quality in parse_accept_lang_header(request.headers.get("Accept-Language", "")):
        language = accepted.partition("-")[0]
        if language in offered:
            return language
    return str(offered[0])


@require_POST
def set_language(request: HttpRequest) -> HttpResponse:
    """Store the chosen language in a cookie, and return to the page `next` of this site.

    A language that the site does not offer is ignored.
    """
    target = request.POST.get("next", "")
    if (
        not target.startswith("/")
        or target.startswith("/language/")
        or not url_has_allowed_host_and_scheme(target, allowed_hosts=())
    ):
        target = "/"
    response = HttpResponseRedirect(target)
    language = request.POST.get("language", "")
    if language in settings.PROJECT.site_languages:
        response.set_cookie(
            settings.LANGUAGE_COOKIE_NAME,
            language,
            max_age=_ONE_YEAR_SECONDS,
            secure=settings.SESSION_COOKIE_SECURE,
            httponly=True,
            samesite="Lax",
        )
    return response


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Return the 404 page; for an unknown address outside programs' paths it is translated."""
    if request.resolver_match is None and not request.path_info.startswith(_OF_PROGRAMS):
        _activate(request)
    return defaults.page_not_found(request, exception)


def _activate(request: HttpRequest) -> None:
    language = language_of(request)
    translation.activate(language)
    request.LANGUAGE_CODE = language


@cache
def _page_names() -> frozenset[str]:
    """Return the names of the URLs of pages for people."""
    return frozenset(_names(get_resolver("scheduler.web.urls").url_patterns)) - _FILES


def _names(patterns: list[URLPattern | URLResolver]) -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _names(pattern.url_patterns)
        elif pattern.name:
            yield pattern.name


urlpatterns = [path("language/", set_language, name="set_language")]
