"""Serves the pages that BOINC Manager opens, and the exported statistics files.

The pages are static or lead to the pages of accounts: they ignore query parameters and show no data
of an account or computer.
"""

from __future__ import annotations

from typing import Final, TypeVar

from django.http import FileResponse, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import path
from django.utils.http import http_date
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from scheduler import storage

Response = TypeVar("Response", bound=HttpResponseBase)

#: Title and text of each page.
PAGES: Final = {
    "account_finish.php": (
        _("Your account exists"),
        _("BOINC attaches this computer automatically and requests work soon. You are done."),
    ),
}
#: The pages of this site that replace pages of BOINC's.
MOVED: Final = {
    "get_passwd.php": "account_reset_password",
    "home.php": "account_home",
    "create_account_form.php": "account_signup",
    "weak_auth.php": "account_keys",
    "hosts_user.php": "account_computers",
    "results.php": "account_results",
    "top_users.php": "leaderboard_accounts",
    "top_hosts.php": "leaderboard_computers",
    "top_teams.php": "teams",
    "team_search.php": "teams",
    "team_create_form.php": "team_create",
    "prefs.php": "account_computing_preferences",
}
_ONE_HOUR: Final = "public, max-age=3600"
_TYPES: Final = {".xml": "text/xml", ".gz": "application/gzip"}


@require_safe
def manager_page(request: HttpRequest, name: str) -> HttpResponse:
    """Return the page of `PAGES` with this name."""
    title, text = PAGES[name]
    context = {"title": title, "text": text}
    return _cached(render(request, "scheduler/manager_page.html", context))


@require_safe
def moved(_request: HttpRequest, name: str) -> HttpResponse:
    """Redirect to the page of this site with this name."""
    return redirect(name)


@require_safe
def statistics_list(request: HttpRequest) -> HttpResponse:
    """Return the page that lists the files of the last statistics export."""
    context = {"files": storage.written_statistics()}
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
    *(path(old, moved, {"name": new}) for old, new in MOVED.items()),
    path("stats/", statistics_list, name="statistics"),
    path("stats/<str:name>", statistics_file, name="statistics_file"),
]
