"""Public endpoints of the leaderboards of accounts, computers and teams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import Http404
from rest_framework import serializers
from rest_framework.utils.urls import replace_query_param

from scheduler.api.endpoints.people.teams import KIND_HELP
from scheduler.api.http.body import Shown, StrictQuery
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Access, operation
from scheduler.credit import leaderboards
from scheduler.credit.rules.board_positions import Order
from scheduler.models import Team
from scheduler.sealed_positions import MAX_TOKEN

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response

    from scheduler.credit.leaderboards import Board, Line
    from scheduler.models import App

DEFAULT_LIMIT, MAX_LIMIT = 50, 100


class BoardQuery(StrictQuery):
    """The parameters of a leaderboard."""

    sort = serializers.ChoiceField(
        choices=[order.value for order in Order],
        default=Order.TOTAL.value,
        help_text="The total credit or the recent average, highest first.",
    )
    below = serializers.CharField(
        max_length=MAX_TOKEN, required=False, help_text="The position in the URL of the next page."
    )
    limit = serializers.IntegerField(
        min_value=1, max_value=MAX_LIMIT, default=DEFAULT_LIMIT, help_text="Lines of a page."
    )
    app = serializers.CharField(
        max_length=254, required=False, help_text="Lists the credit for the app with this name."
    )


class TeamBoardQuery(BoardQuery):
    """The parameters of the leaderboard of teams."""

    kind = serializers.IntegerField(
        min_value=min(leaderboards.TEAM_KINDS).value,
        max_value=max(leaderboards.TEAM_KINDS).value,
        required=False,
        help_text=f"Lists only the teams of this type: {KIND_HELP.removeprefix('0 none, ')}",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Refuse a type with an app; raises `ValidationError`."""
        if "app" in attrs and "kind" in attrs:
            msg = "The teams of one type are not listed by app. Hint: leave out `app` or `kind`."
            raise serializers.ValidationError({"kind": [msg]})
        return attrs


class LineShown(Shown):
    """A line of a leaderboard."""

    place = serializers.IntegerField(
        allow_null=True, help_text=f"Null beyond {leaderboards.MAX_PLACE}."
    )
    total_credit = serializers.FloatField()
    recent_credit = serializers.FloatField()


class AccountLine(LineShown):
    """An account that shares its statistics."""

    id = serializers.IntegerField(source="row.id")
    name = serializers.CharField(source="row.name")
    country = serializers.CharField(source="row.country")
    team = serializers.CharField(allow_null=True, help_text="The name of the team.")

    def read_team(self, line: Line) -> str | None:
        return None if line.row.team is None else str(line.row.team.name)


class ComputerLine(LineShown):
    """A computer of an account that shares its statistics."""

    id = serializers.IntegerField(
        allow_null=True, help_text="Null if the owner does not show the computer."
    )
    owner = serializers.IntegerField(
        allow_null=True, help_text="The owner's id; null if they do not show the computer."
    )
    owner_name = serializers.CharField(allow_null=True)
    cpu = serializers.CharField(source="row.p_model")
    ncpus = serializers.IntegerField(source="row.p_ncpus")
    os_name = serializers.CharField(source="row.os_name")

    def read_id(self, line: Line) -> int | None:
        return line.row.pk if line.names_owner else None

    def read_owner(self, line: Line) -> int | None:
        return line.row.account_id if line.names_owner else None

    def read_owner_name(self, line: Line) -> str | None:
        return line.row.account.name if line.names_owner else None


class TeamLine(LineShown):
    """A team."""

    id = serializers.IntegerField(source="row.id")
    name = serializers.CharField(source="row.name")
    country = serializers.CharField(source="row.country")


class BoardPageShown(Shown):
    """A page of a leaderboard."""

    next = serializers.URLField(
        allow_null=True,
        help_text="The URL of the next page, or null. A page can be short or empty although `next` "
        "is not null.",
    )


class AccountBoardPage(BoardPageShown):
    """A page of the leaderboard of accounts."""

    results = AccountLine(many=True, source="lines")


class ComputerBoardPage(BoardPageShown):
    """A page of the leaderboard of computers."""

    results = ComputerLine(many=True, source="lines")


class TeamBoardPage(BoardPageShown):
    """A page of the leaderboard of teams."""

    results = TeamLine(many=True, source="lines")


class AccountBoard(Endpoint):
    @operation(
        "Read the leaderboard of accounts",
        name="read_account_leaderboard",
        answer=AccountBoardPage,
        query=BoardQuery,
        access=Access.PUBLIC,
        problems=(404, 422),
    )
    def get(self, request: Request) -> Response:
        """Returns the accounts that share their statistics, by credit; 404 for an unknown app."""
        query = self.query()
        board = leaderboards.account_board(_order(query), _app(query))
        return self.reply(_page(request, board, query))


class ComputerBoard(Endpoint):
    @operation(
        "Read the leaderboard of computers",
        name="read_computer_leaderboard",
        answer=ComputerBoardPage,
        query=BoardQuery,
        access=Access.PUBLIC,
        problems=(404, 422),
    )
    def get(self, request: Request) -> Response:
        """Returns the computers whose owners share their statistics, by credit.

        The credit for one app is counted every ten minutes.  404 for an unknown app.
        """
        query = self.query()
        board = leaderboards.computer_board(_order(query), _app(query))
        return self.reply(_page(request, board, query))


class TeamBoard(Endpoint):
    @operation(
        "Read the leaderboard of teams",
        name="read_team_leaderboard",
        answer=TeamBoardPage,
        query=TeamBoardQuery,
        access=Access.PUBLIC,
        problems=(404, 422),
    )
    def get(self, request: Request) -> Response:
        """Returns the teams, by credit.

        The credit for one app is counted every ten minutes.  404 for an unknown app.
        """
        query = self.query()
        kind = None if query.get("kind") is None else Team.Kind(query["kind"])
        board = leaderboards.team_board(_order(query), _app(query), kind)
        return self.reply(_page(request, board, query))


def _order(query: dict[str, Any]) -> Order:
    return Order(query["sort"])


def _app(query: dict[str, Any]) -> App | None:
    """Return the app of a query, None for all apps; raises `Http404` for an unknown one."""
    name = query.get("app")
    app = next((each for each in leaderboards.apps() if each.name == name), None)
    if name is not None and app is None:
        raise Http404
    return app


def _page(request: Request, board: Board, query: dict[str, Any]) -> dict[str, Any]:
    page = leaderboards.read(board, below=query.get("below"), count=query["limit"])
    url = request.build_absolute_uri()
    link = None if page.next is None else replace_query_param(url, "below", page.next)
    return {"next": link, "lines": page.lines}
