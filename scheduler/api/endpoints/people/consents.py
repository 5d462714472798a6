"""Endpoint of the account's consents and of what others see of its computers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework import serializers

from scheduler.api.http.body import Shown, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Scope, operation
from scheduler.models import Account
from scheduler.people.personal_data import consents

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from rest_framework.request import Request
    from rest_framework.response import Response

_SHARE = (
    "Whether statistics sites and other people may see the account's name, country, home page, "
    "team, credit and computers (hardware, operating system and credit, without their names). "
    "If false, the export lists the account as deleted for 60 days."
)
_SHOW = (
    "Whether everybody may open the pages of the account's computers. If `share_statistics` is "
    "true, too, the account's name is at its computers on the leaderboard, on their pages and in "
    "the exported statistics, and the public page `/accounts/ID/` lists them."
)
_LETTERS = (
    "Whether the project may send letters to the account's e-mail address, if it is confirmed. "
    "False withdraws copies that are not delivered yet."
)


class ConsentsOut(Shown):
    """The consents of an account."""

    share_statistics = serializers.BooleanField(help_text=_SHARE)
    show_hosts = serializers.BooleanField(help_text=_SHOW)
    receive_letters = serializers.BooleanField(help_text=_LETTERS)
    terms_accepted_at = serializers.DateTimeField(
        allow_null=True, help_text="When the terms of use were accepted; null if there were none."
    )


class ChangedConsents(Strict):
    """The consents to give or withdraw; omitted ones keep their values."""

    share_statistics = serializers.BooleanField(required=False, help_text=_SHARE)
    show_hosts = serializers.BooleanField(required=False, help_text=_SHOW)
    receive_letters = serializers.BooleanField(required=False, help_text=_LETTERS)


class Consents(Endpoint):
    write_scope = Scope.SUBMIT

    def rows(self) -> QuerySet[Account]:
        return Account.objects.filter(pk=self.account.pk)

    @operation(
        "Read the account's consents", name="read_consents", answer=ConsentsOut, conditional=True
    )
    def get(self, request: Request) -> Response:
        """Returns the current consents of the account."""
        return self.reply(self.account)

    @operation(
        "Change the account's consents",
        name="change_consents",
        answer=ConsentsOut,
        body=ChangedConsents,
        guarded=True,
    )
    def patch(self, request: Request) -> Response:
        """Gives or withdraws consents; the audit log records each change."""
        account = consents.change(self.account, **self.body(), source="API", now=self.now)
        return self.reply(account)
