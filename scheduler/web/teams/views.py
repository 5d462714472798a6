"""The pages of teams that everybody can see."""

from __future__ import annotations

from typing import Any, Final

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from scheduler.credit import badges
from scheduler.credit.credit_samples import Kind
from scheduler.models import Account, Team
from scheduler.people.teams import team_lists, team_views
from scheduler.people.teams.team_views import TeamView
from scheduler.web import credit_charts, fragments, lists
from scheduler.web.accounts.views import attributed
from scheduler.web.texts import translated
from scheduler.web.volunteers.shown import time_of

#: Rows of a page.
TEAMS_PER_PAGE, MEMBERS_PER_PAGE = 50, 50
#: Columns of both lists that sort them, and the direction of the first click.
_COLUMNS: Final = (
    ("recent", _("recent average"), "-"),
    ("total", _("credit"), "-"),
)
_TEAM_COLUMNS: Final = (("name", _("team"), ""), *_COLUMNS, ("created", _("created"), "-"))
_MEMBER_COLUMNS: Final = (("name", _("member"), ""), *_COLUMNS)
_DEFAULT_ORDER: Final = "-recent"


@require_safe
@attributed
def team_list(request: HttpRequest) -> HttpResponseBase:
    """Return the list of teams.

    Parameters are `q`, the beginning of a name, `sort`, a key of `team_lists.TEAM_ORDERS` with an
    optional "-", and `after`, the sealed position of the page.  Invalid ones are ignored.
    """
    prefix = request.GET.get("q", "").strip()
    order = lists.order_of(request.GET.get("sort", ""), team_lists.TEAM_ORDERS, _DEFAULT_ORDER)
    link_position = request.GET.get("after", "")
    listed, after = lists.page_at(
        link_position,
        lambda position: team_lists.teams(
            prefix=prefix, order=order, after=position, count=TEAMS_PER_PAGE
        ),
    )
    now = timezone.now()
    context = {
        "prefix": prefix,
        "order": order,
        "teams": [
            {"team": each, "kind": kind_of(each), "created": time_of(each.created_at, now=now)}
            for each in listed.rows
        ],
        "columns": {
            key: lists.column(key, label, first, order, q=prefix)
            for key, label, first in _TEAM_COLUMNS
        },
        "first": lists.link(q=prefix, sort=order) if after else "",
        "next": lists.link(q=prefix, sort=order, after=listed.next) if listed.next else "",
        "is_bad_position": link_position != after,
        "max_matches": team_lists.MAX_MATCHES,
    }
    return fragments.list_page(request, "teams/teams.html", context)


@require_safe
@attributed
def team(request: HttpRequest, team_id: int) -> HttpResponseBase:
    """Return the page of a team, with its members who share their statistics.

    The founder and the administrators see the other active members, too.  Parameters are those of
    `team_list`, without `q`.
    """
    viewer = request.user if isinstance(request.user, Account) else None
    now = timezone.now()
    view = team_views.read(team_id, viewer, now=now)
    if view is None:
        raise Http404
    order = lists.order_of(request.GET.get("sort", ""), team_lists.MEMBER_ORDERS, _DEFAULT_ORDER)
    link_position = request.GET.get("after", "")
    listed, after = lists.page_at(
        link_position,
        lambda position: team_lists.members(
            team_id, all_active=view.may_manage, order=order, after=position, count=MEMBERS_PER_PAGE
        ),
    )
    context = {
        "view": view,
        "team": view.team,
        "kind": kind_of(view.team),
        "is_web_address": view.team.url.startswith(("https://", "http://")),
        "created": time_of(view.team.created_at, now=now),
        "own_team": None if viewer is None or view.is_member else viewer.team,
        "is_listed": viewer is not None and viewer.share_statistics,
        "step_at": time_of(view.step_at, now=now),
        "members": [_member(each, view, viewer) for each in listed.rows],
        "administrators": [
            {"account": each, "name": team_views.name_of(each.pk, each.name)}
            for each in view.administrators
        ],
        "credit": credit_charts.chart(request, Kind.TEAM, team_id, now=now),
        "held_badges": badges.of_team(team_id),
        "member_count": team_lists.count_members(team_id, all_active=view.may_manage),
        "max_members": team_lists.MAX_MEMBERS,
        "columns": {
            key: lists.column(key, label, first, order) for key, label, first in _MEMBER_COLUMNS
        },
        "first": lists.link(sort=order) if after else "",
        "next": lists.link(sort=order, after=listed.next) if listed.next else "",
        "is_bad_position": link_position != after,
    }
    return fragments.list_page(request, "teams/team.html", context)


def _member(account: Account, view: TeamView, viewer: Account | None) -> dict[str, Any]:
    """Return a line of the list of members, with what the visitor can do."""
    is_other = viewer is None or account.pk != viewer.pk
    return {
        "account": account,
        "name": team_views.name_of(account.pk, account.name),
        "is_administrator": account.pk in {each.pk for each in view.administrators},
        "is_managed": is_other and view.may_remove(account.pk),
    }


@require_safe
def team_display(request: HttpRequest) -> HttpResponseBase:
    """Redirect from BOINC's page of a team, which statistics sites link, to ours."""
    team_id = lists.number(request.GET.get("teamid", ""))
    return redirect("teams") if team_id is None else redirect("team", team_id)


def kind_of(team: Team) -> str:
    """Return the type of a team in words, or an empty text if it has none."""
    return "" if team.kind == Team.Kind.NONE else translated(Team.Kind(team.kind).label.lower())
