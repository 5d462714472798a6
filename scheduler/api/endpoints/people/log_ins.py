"""Endpoints of the account's log-ins with other sites."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allauth.account.adapter import get_adapter
from django.conf import settings
from django.http import Http404
from rest_framework import serializers
from rest_framework.response import Response

from scheduler.api.http.body import Shown
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Scope, operation
from scheduler.people import api_tokens
from scheduler.people.providers import identities

if TYPE_CHECKING:
    from allauth.socialaccount.models import SocialAccount
    from rest_framework.request import Request


class LogInShown(Shown):
    """A log-in with another site."""

    id = serializers.IntegerField()
    provider = serializers.CharField(help_text="The id of the site in the server's settings.")
    name = serializers.CharField(help_text="The name of the site.")
    connected_at = serializers.DateTimeField(source="date_joined")

    def read_name(self, row: SocialAccount) -> str:
        names = {each.id: each.name for each in settings.PROJECT.login_providers}
        return str(names.get(row.provider, row.provider))


class LogInsShown(Shown):
    """The log-ins of the account with other sites."""

    has_password = serializers.BooleanField(
        help_text="Without a password, the last log-in cannot be removed."
    )
    results = LogInShown(many=True, help_text=f"At most {identities.MAX_IDENTITIES}.")


class MyLogIns(Endpoint):
    @operation("List the log-ins with other sites", name="list_my_log_ins", answer=LogInsShown)
    def get(self, request: Request) -> Response:
        """Returns the log-ins of the account with other sites, the oldest first.

        A browser connects another site, at `/account/log-ins/`.
        """
        return self.reply(
            {
                "has_password": self.account.has_usable_password(),
                "results": identities.of_account(self.account),
            }
        )


class MyLogIn(Endpoint):
    write_scope = Scope.SUBMIT

    @operation(
        "Remove a log-in with another site",
        name="remove_my_log_in",
        answer=None,
        status=204,
        problems=(404, 409),
    )
    def delete(self, request: Request, log_in_id: int) -> Response:
        """Removes a log-in, except the only way to log in; the owner gets a mail about it.

        For an account with a second factor, log-ins are removed only at `/account/log-ins/`.
        """
        api_tokens.refuse_with_second_factor(self.account, page="/account/log-ins/")
        row = identities.find(self.account, log_in_id)
        if row is None or not identities.disconnect(self.account, log_in_id, now=self.now):
            raise Http404
        # The adapter of the settings, which sends this mail for the page, too.
        adapter: Any = get_adapter(request._request)  # noqa: SLF001  Django's request
        adapter.notify_of_provider(self.account, row.provider, is_connected=False)
        return Response(status=204)
