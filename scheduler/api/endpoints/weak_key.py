"""Endpoint of the weak account key, with which a computer can be attached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework import serializers

from scheduler.api.http.body import Shown, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Access, operation
from scheduler.people import account_keys, api_tokens

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response


class WeakKeyQuery(Strict):
    """The e-mail address and password of the account."""

    email = serializers.CharField(max_length=254)
    password = serializers.CharField(max_length=1000)


class WeakKeyOut(Shown):
    """A weak account key."""

    weak_key = serializers.CharField()


class WeakKey(Endpoint):
    @operation(
        "Read the weak account key",
        name="read_weak_key",
        answer=WeakKeyOut,
        body=WeakKeyQuery,
        access=Access.OPTIONAL,
        problems=(403, 429),
    )
    def post(self, request: Request) -> Response:
        """Returns the weak key of the account with this e-mail address and password.

        A computer attached with the weak key fetches and reports work, and cannot change the
        account's preferences. The key changes with the password. For an account with a second
        factor, the key is only on the page `/account/keys/` of the site.
        """
        account = api_tokens.of_password(
            **self.body(),
            address=str(request.META.get("REMOTE_ADDR", "")),
            page="/account/keys/",
            now=self.now,
        )
        fields = {"weak_key": account_keys.weak_key(account)}
        return self.reply(fields, headers={"Cache-Control": "no-store"})
