"""Serves the pages that BOINC Manager opens, and the exported statistics files.

The pages are static: they ignore query parameters and show no data of an account or computer.
"""

from __future__ import annotations

from typing import Final, TypeVar
from xml.sax.saxutils import escape

from django.conf import settings
from django.http import FileResponse, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import path
from django.utils.http import http_date
from django.views.decorators.http import require_safe

from scheduler import storage

Response = TypeVar("Response", bound=HttpResponseBase)

_MANAGER: Final = "BOINC Manager on your computer shows them"
#: Title and text of each page.
PAGES: Final = {
    "account_finish.php": (
        "Your account exists",
        "BOINC attaches this computer automatically and requests work soon. You are done.",
    ),
    "get_passwd.php": (
        "A forgotten password",
        "This site does not send new passwords yet. The staff of the project can set one.",
    ),
    "home.php": (
        "Your account",
        "This site has no account pages yet. BOINC Manager shows your credit under Statistics.",
    ),
    "prefs.php": (
        "Preferences",
        "Preferences cannot be changed on this site yet. In BOINC Manager, use Options.",
    ),
    "hosts_user.php": (
        "Your computers",
        "This site does not list computers yet. BOINC Manager shows the computer it runs on.",
    ),
    "results.php": (
        "Your tasks",
        f"This site does not list tasks yet. {_MANAGER} under Tasks.",
    ),
    "show_host_detail.php": (
        "A computer",
        "This site has no pages of computers yet. BOINC Manager shows the computer it runs on.",
    ),
}
#: Names of the feeds that BOINC clients and BOINC Manager read.
FEEDS: Final = ("notices.php", "rss_main.php")
_ONE_HOUR: Final = "public, max-age=3600"
_TYPES: Final = {".xml": "text/xml", ".gz": "application/gzip"}


@require_safe
def manager_page(request: HttpRequest, name: str) -> HttpResponse:
    """Return the page of `PAGES` with this name."""
    title, text = PAGES[name]
    context = {"project": {"name": settings.PROJECT.name}, "title": title, "text": text}
    return _cached(render(request, "scheduler/manager_page.html", context))


@require_safe
def feed(_request: HttpRequest) -> HttpResponse:
    """Return an RSS channel without items, because this site does not publish news yet."""
    project = settings.PROJECT
    text = (
        '<?xml version="1.0" encoding="UTF-8" ?>\n<rss version="2.0">\n<channel>\n'
        f"<title>{escape(project.name)}</title>\n"
        f"<link>{escape(project.master_url)}</link>\n"
        f"<description>News of {escape(project.name)}</description>\n"
        "</channel>\n</rss>\n"
    )
    return _cached(HttpResponse(text, content_type="application/rss+xml; charset=utf-8"))


@require_safe
def statistics_list(request: HttpRequest) -> HttpResponse:
    """Return the page that lists the files of the last statistics export."""
    context = {"project": {"name": settings.PROJECT.name}, "files": storage.written_statistics()}
    return render(request, "scheduler/statistics.html", context)


@require_safe
def statistics_file(_request: HttpRequest, name: str) -> HttpResponseBase:
    """Return a file of the last statistics export, or 404 if the file does not exist."""
    try:
        file, changed_at = storage.open_statistics(name)
    except FileNotFoundError:
        return HttpResponse("There is no such file.\n", status=404, content_type="text/plain")
    response = FileResponse(file, content_type=_TYPES[name[name.rindex(".") :]])
    response["Last-Modified"] = http_date(changed_at)
    return _cached(response)


def _cached(response: Response) -> Response:
    response["Cache-Control"] = _ONE_HOUR
    return response


urlpatterns = [
    *(path(name, manager_page, {"name": name}, name=name.removesuffix(".php")) for name in PAGES),
    *(path(name, feed, name=name.removesuffix(".php")) for name in FEEDS),
    path("stats/", statistics_list, name="statistics"),
    path("stats/<str:name>", statistics_file, name="statistics_file"),
]
