"""The pages of an account's computing and project preferences."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_http_methods

from scheduler.boinc import own_preferences
from scheduler.boinc.own_preferences import Kind, OwnPreferences, PreferencesChanged
from scheduler.models import Account
from scheduler.people.account_keys import AccountRefused
from scheduler.web.accounts.views import own_page
from scheduler.web.texts import translated
from scheduler.web.volunteers import shown
from scheduler.web.volunteers.preference_forms import (
    ComputingForm,
    PreferencesForm,
    ProjectForm,
)

_FORMS: Final[dict[str, type[PreferencesForm]]] = {
    "computing": ComputingForm,
    "project": ProjectForm,
}
_MAX_OTHERS, _MAX_NAME = 20, 60
_CONFLICT = 409


@require_http_methods(["GET", "HEAD", "POST"])
@own_page
def computing(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Return the page of the computing preferences, which clients apply to all projects."""
    return _preferences(request, account, own_preferences.COMPUTING)


@require_http_methods(["GET", "HEAD", "POST"])
@own_page
def project(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Return the page of the preferences for this project."""
    return _preferences(request, account, own_preferences.PROJECT)


def _preferences(request: HttpRequest, account: Account, kind: Kind) -> HttpResponseBase:
    """Return the page for the location in the parameter `location`.

    A POST saves the form; with `action`, it resets the settings or removes those of the location.
    """
    location = request.GET.get("location", "")
    try:
        stored = own_preferences.read(account, kind, location)
    except own_preferences.UnknownLocation as unknown:
        raise Http404 from unknown
    action = request.POST.get("action", "")
    if request.method == "POST" and action in _ACTIONS:
        return _act(request, account, kind, stored, action)
    form = _FORMS[kind.name](request.POST or None, stored=stored)
    status = 200
    if request.method == "POST" and form.is_valid():
        try:
            own_preferences.change(
                account,
                kind,
                location,
                form.values(),
                version=form.cleaned_data["version"],
                now=timezone.now(),
            )
        except PreferencesChanged as refusal:
            form.compare(own_preferences.read(account, kind, location))
            form.add_error(None, translated(str(refusal)))
            status = _CONFLICT
        except AccountRefused as refusal:
            form.add_error(None, translated(str(refusal)))
        else:
            messages.success(request, _("The preferences are saved."))
            return _back(kind, location)
    return _page(request, kind, stored, form, status=status)


#: The operation of each action, and the message of its success.
_ACTIONS: Final = {
    "reset": (own_preferences.reset, gettext_noop("The preferences are reset to the defaults.")),
    "remove": (own_preferences.remove, gettext_noop("The settings of the location are removed.")),
}


def _act(
    request: HttpRequest, account: Account, kind: Kind, stored: OwnPreferences, action: str
) -> HttpResponse:
    operation, done = _ACTIONS[action]
    version = request.POST.get("version", "")
    try:
        operation(account, kind, stored.location, version=version, now=timezone.now())
    except AccountRefused as refusal:
        messages.error(request, translated(str(refusal)))
        return _back(kind, stored.location)
    messages.success(request, _(done))
    still_there = action == "reset" or stored.location in own_preferences.LOCATIONS
    return _back(kind, stored.location if still_there else "")


def _back(kind: Kind, location: str) -> HttpResponse:
    return redirect(_address(kind.name, location))


def _address(name: str, location: str) -> str:
    query = f"?{urlencode({'location': location})}" if location else ""
    return reverse(f"account_{name}_preferences") + query


def _label(location: str) -> str:
    if location in shown.VENUES:
        return str(shown.VENUES[location])
    return location if len(location) <= _MAX_NAME else f"{location[:_MAX_NAME]}…"


def _page(
    request: HttpRequest,
    kind: Kind,
    stored: OwnPreferences,
    form: PreferencesForm,
    *,
    status: int,
) -> TemplateResponse:
    names = dict.fromkeys((*own_preferences.LOCATIONS, *stored.own_locations))
    context: dict[str, Any] = {
        "kind": kind.name,
        "stored": stored,
        "location": _label(stored.location) if stored.location else "",
        "locations": [
            (
                _address(kind.name, name),
                _label(name),
                name == stored.location,
                name in stored.own_locations if name else stored.has_general,
            )
            for name in names
        ],
        "pages": [
            (_address(name, ""), label, name == kind.name)
            for name, label in (("computing", _("Computing")), ("project", _("This project")))
        ],
        "unset": _("as default") if stored.has_general else _("not set"),
        "form": form,
        "others": stored.others[:_MAX_OTHERS],
        "changed": shown.time_of(stored.changed_at, now=timezone.now()),
    }
    return TemplateResponse(request, "volunteers/preferences.html", context, status=status)
