"""Endpoint of the caller's account with its rights and quota; changes its profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rest_framework import serializers

from scheduler.api.http.body import Shown, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Access, Scope, operation
from scheduler.models import Account
from scheduler.people import accounts, api_tokens, quotas
from scheduler.rights import Right

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from rest_framework.request import Request
    from rest_framework.response import Response

    from scheduler.models import ApiToken


class AccountOut(Shown):
    """The account of the token."""

    id = serializers.IntegerField()
    email = serializers.CharField()
    name = serializers.CharField()
    country = serializers.CharField()
    home_page = serializers.CharField(source="url", help_text="An address of the web, or empty.")
    is_staff = serializers.BooleanField(help_text="Whether the account may open the admin site.")
    rights = serializers.ListField(
        child=serializers.ChoiceField([str(right) for right in Right]),
        help_text="The account's rights, limited to the scopes of the token.",
    )

    def read_rights(self, account: Account) -> list[str]:
        return sorted(account.rights)


class MaySubmitApp(Shown):
    """An app for which the account may submit."""

    name = serializers.CharField(source="app.name")
    may_manage = serializers.BooleanField()


class MaySubmit(Shown):
    """The apps for which the account may submit."""

    all_apps = serializers.BooleanField()
    apps = MaySubmitApp(many=True)


class Quota(Shown):
    """The limits of the account and their current use; a limit of null means no limit."""

    max_unfinished_workunits = serializers.IntegerField(allow_null=True)
    unfinished_workunits = serializers.IntegerField()
    max_kept_bytes = serializers.IntegerField(allow_null=True)
    kept_bytes = serializers.IntegerField(
        help_text="Total size of uploaded files, input files of batches, and kept outputs."
    )
    kept_output_bytes = serializers.IntegerField(
        help_text="Size of the kept outputs, included in `kept_bytes`. Outputs are deleted after "
        "their batch is retired."
    )


class MeOut(Shown):
    """The caller's account, scopes, rights and quota."""

    account = AccountOut()
    scopes = serializers.ListField(child=serializers.ChoiceField([str(scope) for scope in Scope]))
    may_submit = MaySubmit()
    quota = Quota()


class ChangedMe(Strict):
    """Fields of the account to change; omitted fields keep their values."""

    name = serializers.CharField(
        required=False,
        max_length=254,
        help_text="The name that other people see; without < and >.",
    )
    country = serializers.CharField(required=False, max_length=64, allow_blank=True)
    home_page = serializers.CharField(
        required=False,
        max_length=200,
        allow_blank=True,
        help_text="An address that begins with https:// or http://, or empty.",
    )


class Me(Endpoint):
    write_scope = Scope.SUBMIT

    def rows(self) -> QuerySet[Account]:
        return Account.objects.filter(pk=self.account.pk)

    @operation(
        "Read the caller's account, rights and quota",
        name="read_me",
        answer=MeOut,
        access=Access.ANY,
        conditional=True,
    )
    def get(self, request: Request) -> Response:
        """Returns the account and scopes of the token, and the account's rights and quota.

        The `ETag` covers the quota, which changes while the account's work is computed.
        """
        if self._is_read:
            # Of a PATCH with If-Match: the row is locked since the token was checked.
            self.account.refresh_from_db(fields=["name", "country", "url"])
        return self._reply()

    @operation(
        "Change the account's name, country and home page",
        name="change_me",
        answer=MeOut,
        body=ChangedMe,
        guarded=True,
    )
    def patch(self, request: Request) -> Response:
        """Changes the given fields, as the page `/account/` does.

        If the project sends mail, a home page needs a confirmed e-mail address, else the answer is
        403 `unconfirmed_address`.
        The password, the e-mail address and the second factor are changed only on the site.
        """
        fields = {_COLUMNS.get(name, name): value for name, value in self.body().items()}
        accounts.change_profile(self.account, fields, now=self.now)
        return self._reply()

    def _reply(self) -> Response:
        account, rights = self.account, quotas.rights(self.account)
        outputs = quotas.kept_output_bytes(account)
        return self.reply(
            {
                "account": account,
                "scopes": api_tokens.effective_scopes(cast("ApiToken", self.request.auth)),
                "may_submit": rights,
                "quota": {
                    "max_unfinished_workunits": rights.max_unfinished_workunits,
                    "unfinished_workunits": quotas.unfinished_workunits(account),
                    "max_kept_bytes": rights.max_kept_bytes,
                    "kept_bytes": quotas.kept_bytes(account) + outputs,
                    "kept_output_bytes": outputs,
                },
            }
        )


_COLUMNS = {"home_page": "url"}
