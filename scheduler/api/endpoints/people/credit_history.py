"""Endpoints of the credit per day of all holders, and of credit by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import Http404
from rest_framework import serializers

from scheduler.api.http.body import Shown, StrictQuery
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Access, operation
from scheduler.credit import credit_samples, manual_grants, public_accounts
from scheduler.credit.credit_samples import Kind
from scheduler.hosts import own_hosts
from scheduler.people import team_reads

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response

DEFAULT_DAYS = 30


class HistoryQuery(StrictQuery):
    """The parameters of a history of credit."""

    days = serializers.IntegerField(
        min_value=1,
        max_value=credit_samples.MAX_DAYS,
        default=DEFAULT_DAYS,
        help_text="The number of days before today (UTC).",
    )


class DayCreditShown(Shown):
    """The credit of a day (UTC)."""

    day = serializers.DateField()
    credit = serializers.FloatField()
    days = serializers.IntegerField(
        help_text="Greater than 1 if no samples were kept on earlier days: `credit` is then the "
        "mean of this number of days, of which `day` is the last."
    )


class CreditHistoryShown(Shown):
    """The credit per day, oldest first; days without samples are left out."""

    history = DayCreditShown(many=True)


class ManualGrantShown(Shown):
    """Credit that staff granted or revoked by hand."""

    granted_at = serializers.DateTimeField(source="entry.granted_at")
    amount = serializers.FloatField(source="entry.amount", help_text="Negative if it was revoked.")
    reason = serializers.CharField()


class ManualGrantsShown(Shown):
    """Credit by hand, newest first."""

    results = ManualGrantShown(many=True, help_text=f"At most {manual_grants.MAX_SHOWN}.")


class _History(Endpoint):
    """An endpoint that returns the credit per day of one holder."""

    def history(self, kind: Kind, holder_id: int) -> Response:
        days = self.query()["days"]
        return self.reply(
            {"history": credit_samples.read(kind, holder_id, days=days, now=self.now)}
        )


class MyCreditHistory(_History):
    @operation(
        "Read the account's credit per day",
        name="read_my_credit_history",
        answer=CreditHistoryShown,
        query=HistoryQuery,
    )
    def get(self, request: Request) -> Response:
        """Returns the credit of the account on the last days."""
        return self.history(Kind.ACCOUNT, self.account.pk)


class MyCreditGrants(Endpoint):
    @operation(
        "Read the account's credit by hand", name="read_my_credit_grants", answer=ManualGrantsShown
    )
    def get(self, request: Request) -> Response:
        """Returns the credit that staff granted or revoked by hand, with the reasons."""
        return self.reply({"results": manual_grants.newest_grants(self.account)})


class ComputerCreditHistory(_History):
    @operation(
        "Read the credit per day of a computer of the account",
        name="read_my_computers_credit_history",
        answer=CreditHistoryShown,
        query=HistoryQuery,
        problems=(404,),
    )
    def get(self, request: Request, host_id: int) -> Response:
        """Returns the credit of the computer on the last days."""
        if own_hosts.find(self.account, host_id) is None:
            raise Http404
        return self.history(Kind.HOST, host_id)


class AccountCreditHistory(_History):
    @operation(
        "Read the credit per day of a public account",
        name="read_credit_history",
        answer=CreditHistoryShown,
        query=HistoryQuery,
        access=Access.PUBLIC,
        problems=(404,),
    )
    def get(self, request: Request, account_id: int) -> Response:
        """Returns the credit of an account that shares its statistics; 404 for all others."""
        if public_accounts.find_shared(account_id) is None:
            raise Http404
        return self.history(Kind.ACCOUNT, account_id)


class PublicComputerCreditHistory(_History):
    @operation(
        "Read the credit per day of a public computer",
        name="read_computer_credit_history",
        answer=CreditHistoryShown,
        query=HistoryQuery,
        access=Access.PUBLIC,
        problems=(404,),
    )
    def get(self, request: Request, host_id: int) -> Response:
        """Returns the credit of a computer whose owner shows it and shares their statistics."""
        host = own_hosts.find_shown(host_id)
        if host is None or not host.account.share_statistics:
            raise Http404
        return self.history(Kind.HOST, host_id)


class TeamCreditHistory(_History):
    @operation(
        "Read the credit per day of a team",
        name="read_team_credit_history",
        answer=CreditHistoryShown,
        query=HistoryQuery,
        problems=(404,),
    )
    def get(self, request: Request, team_id: int) -> Response:
        """Returns the credit of a team on the last days."""
        if team_reads.find(team_id) is None:
            raise Http404
        return self.history(Kind.TEAM, team_id)


class ProjectCreditHistory(_History):
    @operation(
        "Read the credit per day of the project",
        name="read_project_credit_history",
        answer=CreditHistoryShown,
        query=HistoryQuery,
        access=Access.PUBLIC,
    )
    def get(self, request: Request) -> Response:
        """Returns the credit of all computers together on the last days."""
        return self.history(Kind.PROJECT, 0)
