"""Endpoints that create, list and revoke tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from django.http import Http404
from rest_framework import serializers
from rest_framework.response import Response

from scheduler.api.http.body import INT4, Column, RowShown, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Access, Scope, operation
from scheduler.api.http.problems import Problem
from scheduler.models import ApiToken
from scheduler.people import api_tokens, audit

if TYPE_CHECKING:
    from rest_framework.request import Request


class TokenOut(RowShown):
    """A token, without its text."""

    id = Column()
    name = Column()
    scopes = serializers.SerializerMethodField()
    created_at = Column()
    expire_at = Column()
    last_used_on = Column()

    class Meta:
        model = ApiToken

    def get_scopes(self, token: ApiToken) -> list[str]:
        return api_tokens.scopes_of(token)


class NewTokenOut(TokenOut):
    """A new token with its text, which is returned only once."""

    token = serializers.CharField()


class NewToken(Strict):
    """The new token; `email` and `password` are needed unless the request is authenticated."""

    email = serializers.CharField(
        required=False, max_length=254, help_text="Must be sent together with `password`."
    )
    password = serializers.CharField(
        required=False, max_length=1000, help_text="Must be sent together with `email`."
    )
    name = serializers.CharField(
        max_length=api_tokens.MAX_NAME, help_text="A name by which people recognize the token."
    )
    scopes = serializers.ListField(
        child=serializers.ChoiceField([str(scope) for scope in Scope]),
        required=False,
        min_length=1,
        max_length=len(Scope),
        help_text="By default, all scopes of the account, or of the token in the request, except "
        "`administer`.",
    )
    expires_in_seconds = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=INT4
    )


class Tokens(Endpoint):
    @operation(
        "List the account's tokens",
        name="list_tokens",
        answer=TokenOut,
        listed=True,
        access=Access.ANY,
    )
    def get(self, request: Request) -> Response:
        """Returns the tokens that are not revoked, newest first, without their texts."""
        return self.page(api_tokens.of_account(self.account))

    @operation(
        "Create a token",
        name="create_token",
        answer=NewTokenOut,
        status=201,
        body=NewToken,
        access=Access.OPTIONAL,
        problems=(403, 429),
    )
    def post(self, request: Request) -> Response:
        """Requires the e-mail address and password, or a token with at least the same scopes.

        The text of the new token is returned only in this response. A token that was created with
        another token expires no later than that token.
        """
        data, now = self.body(), self.now
        seconds = data.get("expires_in_seconds")
        fields: dict[str, Any] = {
            "name": data["name"],
            "expire_at": None if seconds is None else now + timedelta(seconds=seconds),
            "now": now,
        }
        token, text = self._make(data, fields)
        token.token = text  # type: ignore[attr-defined]  # for the serializer
        return self.reply(token, headers={"Cache-Control": "no-store"})

    def _make(self, data: dict[str, Any], fields: dict[str, Any]) -> tuple[ApiToken, str]:
        email, password = data.get("email"), data.get("password")
        if email is None and password is None and self.request.auth is not None:
            parent = cast("ApiToken", self.request.auth)
            scopes = data.get("scopes") or [
                scope for scope in api_tokens.effective_scopes(parent) if scope != "administer"
            ]
            return api_tokens.create_by_token(parent, **fields, scopes=scopes)
        if email is None or password is None:
            msg = "The request has no credentials. Hint: send `email` and `password`, or a token."
            raise Problem(401, "not_authenticated", msg)
        account = api_tokens.of_password(
            email=email,
            password=password,
            address=str(self.request.META.get("REMOTE_ADDR", "")),
            now=fields["now"],
        )
        audit.identify(account)
        scopes = data.get("scopes") or api_tokens.default_scopes(account)
        return api_tokens.create(account=account, **fields, scopes=scopes)


class OneToken(Endpoint):
    @operation("Revoke a token", name="revoke_token", answer=None, status=204, access=Access.ANY)
    def delete(self, request: Request, token_id: int) -> Response:
        """Revokes the token and all tokens that were created with it, immediately and permanently.

        A token can revoke itself.
        """
        if not api_tokens.revoke(account=self.account, token_id=token_id, now=self.now):
            raise Http404
        return Response(status=204)
