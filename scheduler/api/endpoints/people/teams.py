"""Endpoints of the account's team: create, join, leave and lead it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import Http404
from rest_framework import serializers
from rest_framework.response import Response

from scheduler.api.http.body import INT8, Column, RowShown, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Scope, operation
from scheduler.api.http.problems import Problem
from scheduler.models import Team
from scheduler.people import team_reads, teams
from scheduler.people.teams import TeamProfile

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from rest_framework.request import Request

KIND_HELP = (
    "0 none, 1 club, 2 company, 3 primary school, 4 secondary school, 5 junior college, "
    "6 university, 7 government."
)


class TeamOut(RowShown):
    """The team of the account."""

    id = Column()
    name = Column()
    kind = serializers.IntegerField(help_text=KIND_HELP)
    url = serializers.CharField()
    description = Column()
    country = Column()
    joinable = serializers.BooleanField(help_text="Whether accounts can join the team.")
    founder = serializers.IntegerField(
        source="founder_id",
        allow_null=True,
        help_text="The account of the founder; null without a founder, or if the founder does not "
        "share their statistics.",
    )
    administrators = serializers.SerializerMethodField(
        help_text="The accounts of the active administrators. Only the founder and the "
        "administrators see those who do not share their statistics.",
    )
    requested_by = serializers.IntegerField(
        source="requested_by_id",
        allow_null=True,
        help_text="The account that has requested the foundership. Only the founder sees an "
        "account that does not share its statistics; for others it is null.",
    )
    requested_at = Column()
    total_credit = serializers.FloatField()
    recent_credit = serializers.FloatField(source="expavg_credit")
    created_at = Column()

    class Meta:
        model = Team

    def to_representation(self, instance: Team) -> dict[str, Any]:
        """Return the fields, without accounts that the context's `viewer` may not see."""
        shown = super().to_representation(instance)
        leaders = team_reads.shown_leaders(instance, self.context["viewer"])
        shown["founder"], shown["requested_by"] = leaders
        return shown

    def get_administrators(self, team: Team) -> list[int]:
        accounts = team_reads.shown_administrators(team, self.context["viewer"])
        return [account.pk for account in accounts]


class ChangedTeam(Strict):
    """Fields of a team to change; omitted fields keep their values."""

    name = serializers.CharField(required=False, max_length=254)
    kind = serializers.IntegerField(required=False, min_value=0, max_value=7, help_text=KIND_HELP)
    url = serializers.CharField(required=False, max_length=200, allow_blank=True)
    description = serializers.CharField(required=False, max_length=10_000, allow_blank=True)
    country = serializers.CharField(required=False, max_length=64, allow_blank=True)
    joinable = serializers.BooleanField(required=False)


class NewTeam(ChangedTeam):
    """A new team."""

    name = serializers.CharField(max_length=254)


class JoinedTeam(Strict):
    """The team to join."""

    team = serializers.IntegerField(min_value=1, max_value=INT8, help_text="The id of the team.")


class Foundership(Strict):
    """A change of the foundership of the account's team."""

    action = serializers.ChoiceField(
        ["request", "assume", "decline", "transfer"],
        help_text="`request` it from the founder; `assume` it 60 days after an unanswered request; "
        "as the founder, `decline` a request, or `transfer` it to a member.",
    )
    account = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=INT8,
        help_text="The member who becomes the founder; only with `transfer`.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Require the account for a transfer, and refuse it for other actions."""
        if (attrs["action"] == "transfer") != ("account" in attrs):
            msg = f"`account` does not fit the action {attrs['action']!r}."
            hint = "give `account` with `transfer`, and with no other action."
            raise Problem(422, "bad_foundership", msg, hint=hint)
        return attrs


class MyTeam(Endpoint):
    write_scope = Scope.SUBMIT

    def rows(self) -> QuerySet[Team]:
        return Team.objects.filter(members=self.account)

    def lock_first(self) -> None:
        """Lock the account, which comes before its team in the lock order."""
        teams.lock_accounts([self.account.pk])

    @operation(
        "Read the account's team",
        name="read_team",
        answer=TeamOut,
        conditional=True,
        problems=(404,),
    )
    def get(self, request: Request) -> Response:
        """Returns the team of the account; 404 if it has none.

        `GET /teams` finds teams to join.
        """
        return self.reply(_own_team(self), viewer=self.account)

    @operation(
        "Create a team",
        name="create_team",
        answer=TeamOut,
        status=201,
        body=NewTeam,
        idempotent=True,
        problems=(409, 429),
    )
    def post(self, request: Request) -> Response:
        """Creates a team, whose founder and first member is the account; it leaves its team.

        An account creates five teams at once, then one every 4.8 hours. If the project sends mail,
        it needs a confirmed e-mail address, else the answer is 403 `unconfirmed_address`.
        """
        team = teams.create(self.account, TeamProfile(**self.body()), now=self.now)
        return self.reply(team, viewer=self.account, headers={"Location": "/api/v1/me/team"})

    @operation(
        "Change the account's team",
        name="change_team",
        answer=TeamOut,
        body=ChangedTeam,
        guarded=True,
        problems=(403, 404, 409),
    )
    def patch(self, request: Request) -> Response:
        """Changes the given fields; only the founder and the administrators may.

        Texts need a confirmed e-mail address, as in the creation of a team.
        """
        team = _own_team(self)
        changed = teams.change(team.pk, self.body(), by=self.account, now=self.now)
        return self.reply(changed, viewer=self.account)

    @operation("Leave the team", name="leave_team", answer=None, status=204, problems=(409,))
    def delete(self, request: Request) -> Response:
        """Leaves the team; a founder cannot while the team has other active members."""
        teams.leave(self.account)
        return Response(status=204)


class DeleteTeam(Endpoint):
    write_scope = Scope.SUBMIT

    @operation(
        "Delete the account's team",
        name="delete_team",
        answer=None,
        status=204,
        problems=(403, 404, 409),
    )
    def post(self, request: Request) -> Response:
        """Deletes the team; only the founder may, as its only active member."""
        teams.delete(_own_team(self).pk, by=self.account, now=self.now)
        return Response(status=204)


class JoinTeam(Endpoint):
    write_scope = Scope.SUBMIT

    @operation(
        "Join a team", name="join_team", answer=TeamOut, body=JoinedTeam, problems=(404, 409)
    )
    def post(self, request: Request) -> Response:
        """Joins a team that accepts members; the account leaves its former team."""
        team = teams.join(self.account, self.body()["team"])
        return self.reply(team, viewer=self.account)


class TeamFoundership(Endpoint):
    write_scope = Scope.SUBMIT

    @operation(
        "Request or give the foundership",
        name="change_foundership",
        answer=TeamOut,
        body=Foundership,
        problems=(403, 404, 409),
    )
    def post(self, request: Request) -> Response:
        """Requests, assumes, declines or transfers the foundership of the account's team."""
        body, team, account, now = self.body(), _own_team(self), self.account, self.now
        match body["action"]:
            case "request":
                changed = teams.request_foundership(account, now=now)
            case "assume":
                changed = teams.assume_foundership(account, now=now)
            case "decline":
                changed = teams.decline_request(team.pk, by=account, now=now)
            case _:
                changed = teams.transfer(team.pk, body["account"], by=account, now=now)
        return self.reply(changed, viewer=account)


class TeamMember(Endpoint):
    write_scope = Scope.SUBMIT

    @operation(
        "Remove a member from the team",
        name="remove_member",
        answer=None,
        status=204,
        problems=(403, 409),
    )
    def delete(self, request: Request, account_id: int) -> Response:
        """Removes a member from the account's team.

        The founder removes every other member, administrators only members who are neither the
        founder nor administrators.
        """
        teams.remove_member(_own_team(self).pk, account_id, by=self.account, now=self.now)
        return Response(status=204)


class OneAdministrator(Endpoint):
    write_scope = Scope.SUBMIT

    @operation(
        "Name an administrator of the team",
        name="name_administrator",
        answer=TeamOut,
        problems=(403, 409),
    )
    def put(self, request: Request, account_id: int) -> Response:
        """Makes a member an administrator of the account's team; only the founder may.

        Naming an administrator again changes nothing.
        """
        team = _own_team(self)
        changed = teams.name_administrator(team.pk, account_id, by=self.account, now=self.now)
        return self.reply(changed, viewer=self.account)

    @operation(
        "Dismiss an administrator of the team",
        name="dismiss_administrator",
        answer=None,
        status=204,
        problems=(403, 409),
    )
    def delete(self, request: Request, account_id: int) -> Response:
        """Makes an administrator a member again.

        The founder dismisses every administrator, and administrators resign with their own id.
        """
        if account_id == self.account.pk:
            teams.resign(self.account, now=self.now)
        else:
            team = _own_team(self)
            teams.dismiss_administrator(team.pk, account_id, by=self.account, now=self.now)
        return Response(status=204)


def _own_team(endpoint: Endpoint) -> Team:
    team = endpoint.account.team
    if team is None:
        raise Http404
    return team
