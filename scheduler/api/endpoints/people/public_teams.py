"""Endpoints of all teams and their members, with what everybody may see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import Http404
from rest_framework import serializers
from rest_framework.utils.urls import replace_query_param

from scheduler.api.endpoints.people.badges import HeldBadgeShown
from scheduler.api.endpoints.people.teams import KIND_HELP
from scheduler.api.http.body import Shown, StrictQuery
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import operation
from scheduler.credit import badges
from scheduler.people import team_reads
from scheduler.people.teams import team_lists
from scheduler.sealed_positions import MAX_TOKEN

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response

    from scheduler.credit.badges import HeldBadge
    from scheduler.models import Account, Team
    from scheduler.people.teams.team_lists import Page

DEFAULT_LIMIT, MAX_LIMIT = 50, 100
_ORDERS = [f"{sign}{key}" for key in team_lists.TEAM_ORDERS for sign in ("", "-")]


class ListQuery(StrictQuery):
    """The parameters of a list."""

    sort = serializers.ChoiceField(
        choices=_ORDERS,
        default="-recent",
        help_text="name, recent average credit, total credit or time of creation; `-` for the "
        "descending order.",
    )
    after = serializers.CharField(
        max_length=MAX_TOKEN, required=False, help_text="The position in the URL of the next page."
    )
    limit = serializers.IntegerField(
        min_value=1, max_value=MAX_LIMIT, default=DEFAULT_LIMIT, help_text="Items of a page."
    )


class TeamQuery(ListQuery):
    """The parameters of the list of teams."""

    name = serializers.CharField(
        required=False,
        max_length=254,
        help_text="The beginning of the name, in any case. At most "
        f"{team_lists.MAX_MATCHES} teams are found.",
    )


class TeamListed(Shown):
    """A team in the list."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    kind = serializers.IntegerField(help_text=KIND_HELP)
    country = serializers.CharField()
    joinable = serializers.BooleanField(help_text="Whether accounts can join the team.")
    total_credit = serializers.FloatField()
    recent_credit = serializers.FloatField(source="expavg_credit")
    created_at = serializers.DateTimeField()


class TeamShown(TeamListed):
    """A team."""

    url = serializers.CharField()
    description = serializers.CharField(help_text="Plain text.")
    founder = serializers.IntegerField(
        allow_null=True,
        help_text="The account of the founder; null without a founder, or if the founder does not "
        "share their statistics.",
    )
    administrators = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="The accounts of the administrators who share their statistics.",
    )
    badges = HeldBadgeShown(many=True, help_text="Those of the highest level first.")

    def read_administrators(self, team: Team) -> list[int]:
        return [account.pk for account in team_reads.shown_administrators(team, None)]

    def read_badges(self, team: Team) -> tuple[HeldBadge, ...]:
        return badges.of_team(team.pk)

    def read_founder(self, team: Team) -> int | None:
        return team_reads.shown_founder_id(team) or None


class TeamMemberShown(Shown):
    """A member of a team."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    country = serializers.CharField()
    shares_statistics = serializers.BooleanField(
        source="share_statistics",
        help_text="Only the founder and the administrators see members who do not.",
    )
    is_administrator = serializers.BooleanField(
        help_text="Whether the member is an administrator of the team."
    )
    total_credit = serializers.FloatField()
    recent_credit = serializers.FloatField(source="expavg_credit")

    def read_is_administrator(self, account: Account) -> bool:
        return account.pk in self.context["administrator_ids"]


class TeamPage(Shown):
    """A page of teams."""

    next = serializers.URLField(allow_null=True, help_text="The URL of the next page, or null.")
    results = TeamListed(many=True)


class TeamMemberPage(Shown):
    """A page of members."""

    next = serializers.URLField(allow_null=True, help_text="The URL of the next page, or null.")
    results = TeamMemberShown(many=True)


class Teams(Endpoint):
    @operation("List teams", name="list_teams", answer=TeamPage, query=TeamQuery, problems=(422,))
    def get(self, request: Request) -> Response:
        """Returns all teams, or those whose names begin with `name`."""
        query = self.query()
        page = team_lists.teams(
            prefix=query.get("name", ""),
            order=query["sort"],
            after=query.get("after"),
            count=query["limit"],
        )
        return self.reply(_links(request, page))


class TeamById(Endpoint):
    @operation("Read a team", name="read_any_team", answer=TeamShown, conditional=True)
    def get(self, request: Request, team_id: int) -> Response:
        """Returns a team. `GET /me/team` returns the account's own, with open requests."""
        return self.reply(_find(team_id))


class TeamMembers(Endpoint):
    @operation(
        "List the members of a team",
        name="list_members",
        answer=TeamMemberPage,
        query=ListQuery,
        problems=(422,),
    )
    def get(self, request: Request, team_id: int) -> Response:
        """Returns the members who share their statistics.

        The founder and the administrators get all active members. The list has at most the 10 000
        oldest accounts of the team.
        """
        query, team = self.query(), _find(team_id)
        page = team_lists.members(
            team_id,
            all_active=team_reads.may_manage(team, self.account),
            order=query["sort"],
            after=query.get("after"),
            count=query["limit"],
        )
        administrator_ids = {account.pk for account in team_reads.administrators(team)}
        return self.reply(_links(request, page), administrator_ids=administrator_ids)


def _find(team_id: int) -> Team:
    team = team_reads.find(team_id)
    if team is None:
        raise Http404
    return team


def _links(request: Request, page: Page[Any]) -> dict[str, object]:
    url = request.build_absolute_uri()
    link = None if page.next is None else replace_query_param(url, "after", page.next)
    return {"next": link, "results": page.rows}
