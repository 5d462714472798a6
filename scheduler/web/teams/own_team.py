"""The pages with which accounts create, join, leave, lead and delete teams."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Final

from django.contrib import messages
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from scheduler.models import Account
from scheduler.people import team_reads, teams
from scheduler.people.teams import TeamProfile, team_lists, team_views
from scheduler.web.accounts.views import own_page
from scheduler.web.teams.access import find, led, managed, page, refusals_shown
from scheduler.web.teams.forms import TeamChangeForm, TeamForm

_read_or_send = require_http_methods(["GET", "HEAD", "POST"])
_FIELDS: Final = tuple(field.name for field in fields(TeamProfile))


@_read_or_send
@own_page
def create(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Return the form that creates a team; a POST creates it."""
    form = TeamForm(request.POST or None, initial=asdict(TeamProfile(name="")))
    if request.method == "POST" and form.is_valid():
        with form.refusable():
            team = teams.create(account, TeamProfile(**form.cleaned_data), now=timezone.now())
            messages.success(request, _("The team is created. You lead it."))
            return redirect("team", team.pk)
    return page(request, "create", {"form": form, "own_team": account.team})


@_read_or_send
@own_page
def edit(request: HttpRequest, account: Account, team_id: int) -> HttpResponseBase:
    """Return the form that changes a team, for those who manage it; a POST changes it."""
    team = managed(account, team_id)
    initial = {name: getattr(team, name) for name in _FIELDS}
    form = TeamChangeForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        edited_fields = form.edited_fields()
        with form.refusable():
            if edited_fields:
                teams.change(team.pk, edited_fields, by=account, now=timezone.now())
            messages.success(request, _("Your changes are saved."))
            return redirect("team", team.pk)
    return page(request, "edit", {"form": form, "team": team})


@require_POST
@own_page
def join(request: HttpRequest, account: Account, team_id: int) -> HttpResponseBase:
    """Make the account a member of the team."""
    find(team_id)
    with refusals_shown(request):
        team = teams.join(account, team_id)
        messages.success(request, _("You are a member of %(team)s.") % {"team": team.name})
    return redirect("team", team_id)


@require_POST
@own_page
def leave(request: HttpRequest, account: Account, team_id: int) -> HttpResponseBase:
    """Remove the account from the team; a page of a former team changes nothing."""
    if account.team_id != team_id:
        raise Http404
    with refusals_shown(request):
        teams.leave(account)
        messages.success(request, _("You left the team. Your credit stays with it."))
    return redirect("team", team_id)


@_read_or_send
@own_page
def delete(request: HttpRequest, account: Account, team_id: int) -> HttpResponseBase:
    """Return the page that asks the founder whether to delete the team; a POST deletes it."""
    team = led(account, team_id)
    if request.method != "POST":
        is_alone = team_lists.count_members(team_id, all_active=True) == 1
        return page(request, "delete", {"team": team, "is_alone": is_alone})
    next_page: tuple[str | int, ...] = ("team", team_id)
    with refusals_shown(request):
        teams.delete(team_id, by=account, now=timezone.now())
        messages.success(request, _("The team %(team)s is deleted.") % {"team": team.name})
        next_page = ("teams",)
    return redirect(*next_page)


@require_POST
@own_page
def foundership(request: HttpRequest, account: Account, team_id: int) -> HttpResponseBase:
    """Request, assume or decline the foundership of the account's team, by the field `action`."""
    if account.team_id != team_id:
        raise Http404
    now = timezone.now()
    with refusals_shown(request):
        match request.POST.get("action", ""):
            case "request":
                team = teams.request_foundership(account, now=now)
            case "assume":
                team = teams.assume_foundership(account, now=now)
            case "decline":
                team = teams.decline_request(team_id, by=account, now=now)
            case _:
                raise Http404
        if team.founder_id == account.pk and request.POST["action"] != "decline":
            messages.success(request, _("You lead the team."))
        elif team.requested_by_id == account.pk:
            messages.success(request, _("The founder can answer your request for 60 days."))
        else:
            messages.success(request, _("The request is declined."))
    return redirect("team", team_id)


@_read_or_send
@own_page
def member(
    request: HttpRequest, account: Account, team_id: int, account_id: int
) -> HttpResponseBase:
    """Return the page of a member; a POST removes them or, from the founder, makes them founder.

    Administrators get 404 for the founder and for other administrators.
    """
    team = managed(account, team_id)
    is_founder = team.founder_id == account.pk
    other = team_lists.member(team_id, account_id)
    if other is None or other.pk == account.pk:
        raise Http404
    is_administrator = team_reads.is_administrator(team, other)
    if not is_founder and (is_administrator or other.pk == team.founder_id):
        raise Http404
    name = team_views.name_of(other.pk, other.name)
    if request.method != "POST":
        context = {"team": team, "member": other, "name": name}
        context |= {"is_founder": is_founder, "is_administrator": is_administrator}
        return page(request, "member", context)
    now = timezone.now()
    with refusals_shown(request):
        match request.POST.get("action", ""):
            case "remove":
                teams.remove_member(team_id, other.pk, by=account, now=now)
                text = _("%(name)s is not a member any more.")
            case "transfer" if is_founder:
                teams.transfer(team_id, other.pk, by=account, now=now)
                text = _("%(name)s leads the team now.")
            case _:
                raise Http404
        messages.success(request, text % {"name": name})
    return redirect("team", team_id)
