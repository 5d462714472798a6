"""Endpoints of public accounts: a search, one account, and certificates of credit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.http import Http404
from rest_framework import serializers
from rest_framework.utils.urls import replace_query_param

from scheduler.api.endpoints.people.badges import HeldBadgeShown
from scheduler.api.http.body import Shown, StrictQuery
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Access, operation
from scheduler.credit import public_accounts
from scheduler.people.personal_data import profiles
from scheduler.people.teams.team_lists import TEAM_ORDERS
from scheduler.sealed_positions import MAX_TOKEN

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response

    from scheduler.credit.public_accounts import PublicAccount
    from scheduler.models import Account, AccountAppCredit


DEFAULT_LIMIT, MAX_LIMIT = 50, 100


class AccountQuery(StrictQuery):
    """The parameters of the search for accounts."""

    name = serializers.CharField(
        min_length=profiles.MIN_PREFIX,
        max_length=254,
        help_text="The beginning of the name, in any case. At most "
        f"{profiles.MAX_SORTED} accounts are found, the first by name.",
    )
    country = serializers.CharField(
        required=False, max_length=64, help_text="The country, as the accounts have it."
    )
    in_team = serializers.BooleanField(
        required=False, help_text="Whether the accounts have a team; by default both."
    )
    sort = serializers.ChoiceField(
        choices=[f"{sign}{key}" for key in TEAM_ORDERS for sign in ("", "-")],
        default="-created",
        help_text="name, recent average credit, total credit or time of creation; `-` for the "
        "descending order.",
    )
    after = serializers.CharField(
        max_length=MAX_TOKEN, required=False, help_text="The position in the URL of the next page."
    )
    limit = serializers.IntegerField(
        min_value=1, max_value=MAX_LIMIT, default=DEFAULT_LIMIT, help_text="Items of a page."
    )


class AccountFound(Shown):
    """An account that a search has found."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    country = serializers.CharField()
    team = serializers.CharField(allow_null=True, help_text="The name of the team.")
    created_at = serializers.DateTimeField()
    total_credit = serializers.FloatField()
    recent_credit = serializers.FloatField(source="expavg_credit")

    def read_team(self, account: Account) -> str | None:
        return None if account.team is None else account.team.name


class AccountPage(Shown):
    """A page of accounts."""

    next = serializers.URLField(allow_null=True, help_text="The URL of the next page, or null.")
    results = AccountFound(many=True)


class AppCreditShown(Shown):
    """The credit of an account for an app."""

    app = serializers.CharField(source="app.name")
    title = serializers.CharField(source="app.user_friendly_name")
    total_credit = serializers.FloatField(source="total")
    recent_credit = serializers.FloatField(source="expavg")

    def read_title(self, row: AccountAppCredit) -> str:
        return row.app.user_friendly_name or row.app.name


class PublicComputerShown(Shown):
    """A computer of an account that shows its computers."""

    id = serializers.IntegerField()
    cpu = serializers.CharField(source="p_model")
    ncpus = serializers.IntegerField(source="p_ncpus")
    os_name = serializers.CharField()
    total_credit = serializers.FloatField()
    recent_credit = serializers.FloatField(source="expavg_credit")


class PublicAccountShown(Shown):
    """An account that shares its statistics."""

    id = serializers.IntegerField(source="account.id")
    name = serializers.CharField(source="account.name")
    country = serializers.CharField(source="account.country")
    home_page = serializers.CharField()
    team = serializers.CharField(allow_null=True, help_text="The name of the team.")
    created_at = serializers.DateTimeField(source="account.created_at")
    total_credit = serializers.FloatField(source="account.total_credit")
    recent_credit = serializers.FloatField(source="account.expavg_credit")
    place = serializers.IntegerField(
        allow_null=True, help_text="By total credit; null far below the first."
    )
    apps = AppCreditShown(many=True, source="credits")
    badges = HeldBadgeShown(many=True, help_text="Those of the highest level first.")
    computers = PublicComputerShown(
        many=True,
        allow_null=True,
        help_text=f"At most {public_accounts.MAX_HOSTS}; null if the account does not show them.",
    )

    def read_team(self, public: PublicAccount) -> str | None:
        return None if public.account.team is None else public.account.team.name


class CertificateShown(Shown):
    """The figures of the certificate of the account's credit."""

    project = serializers.CharField()
    name = serializers.CharField()
    created_at = serializers.DateTimeField(help_text="When the account was created.")
    total_credit = serializers.FloatField()
    operations = serializers.FloatField(
        help_text="Number of floating-point operations that the credit stands for."
    )

    def read_project(self, _account: Account) -> str:
        return settings.PROJECT.name

    def read_operations(self, account: Account) -> float:
        return public_accounts.operations(account.total_credit)


class Accounts(Endpoint):
    @operation(
        "Search for accounts",
        name="find_accounts",
        answer=AccountPage,
        query=AccountQuery,
        access=Access.PUBLIC,
        problems=(422,),
    )
    def get(self, request: Request) -> Response:
        """Returns the accounts whose names begin with `name` and that share their statistics."""
        query = self.query()
        page = profiles.search_page(
            query["name"],
            country=query.get("country", ""),
            in_team=query.get("in_team"),
            order=query["sort"],
            after=query.get("after"),
            count=query["limit"],
        )
        url = request.build_absolute_uri()
        link = None if page.next is None else replace_query_param(url, "after", page.next)
        return self.reply({"next": link, "results": page.rows})


class OneAccount(Endpoint):
    @operation(
        "Read the public part of an account",
        name="read_public_account",
        answer=PublicAccountShown,
        access=Access.PUBLIC,
        problems=(404,),
    )
    def get(self, request: Request, account_id: int) -> Response:
        """Returns an account that shares its statistics; 404 for all others."""
        public = public_accounts.find(account_id)
        if public is None:
            raise Http404
        return self.reply(public)


class AccountCertificate(Endpoint):
    @operation(
        "Read the certificate of a public account's credit",
        name="read_certificate",
        answer=CertificateShown,
        access=Access.PUBLIC,
        problems=(404,),
    )
    def get(self, request: Request, account_id: int) -> Response:
        """Returns the figures of an account that shares its statistics; 404 for all others."""
        account = public_accounts.find_shared(account_id)
        if account is None:
            raise Http404
        return self.reply(account)


class MyCertificate(Endpoint):
    @operation(
        "Read the certificate of the account's credit",
        name="read_my_certificate",
        answer=CertificateShown,
        conditional=True,
    )
    def get(self, request: Request) -> Response:
        """Returns the figures that `/account/certificate/` shows."""
        return self.reply(self.account)
