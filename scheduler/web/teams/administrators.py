"""The pages on which administrators of teams are named and dismissed."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from scheduler.models import Account
from scheduler.people import team_reads, teams
from scheduler.people.teams import team_lists, team_views
from scheduler.web.accounts.views import own_page
from scheduler.web.teams.access import led, page, refusals_shown


@require_http_methods(["GET", "HEAD", "POST"])
@own_page
def administrator(
    request: HttpRequest, account: Account, team_id: int, account_id: int
) -> HttpResponseBase:
    """Return the page that asks the founder whether to name or dismiss an administrator.

    A POST does it, by the field `action`.
    """
    team = led(account, team_id)
    other = team_lists.member(team_id, account_id)
    if other is None or other.pk == account.pk:
        raise Http404
    name = team_views.name_of(other.pk, other.name)
    if request.method != "POST":
        context = {"team": team, "member": other, "name": name}
        context["is_administrator"] = team_reads.is_administrator(team, other)
        return page(request, "administrator", context)
    now = timezone.now()
    with refusals_shown(request):
        match request.POST.get("action", ""):
            case "name":
                teams.name_administrator(team_id, other.pk, by=account, now=now)
                text = _("%(name)s is an administrator now.")
            case "dismiss":
                teams.dismiss_administrator(team_id, other.pk, by=account, now=now)
                text = _("%(name)s is not an administrator any more.")
            case _:
                raise Http404
        messages.success(request, text % {"name": name})
    return redirect("team", team_id)


@require_POST
@own_page
def resign(request: HttpRequest, account: Account, team_id: int) -> HttpResponseBase:
    """Make an administrator a member again; raise 404 if the account has left this team."""
    if account.team_id != team_id:
        raise Http404
    with refusals_shown(request):
        teams.resign(account, now=timezone.now())
        messages.success(request, _("You are not an administrator any more."))
    return redirect("team", team_id)
