"""Tokens: made by password or by another token, listed, revoked."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from django.http import Http404
from django.urls import path
from rest_framework import serializers
from rest_framework.response import Response

from scheduler.api.http.body import INT4, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.operation import Access, Scope, operation
from scheduler.api.http.problems import Problem
from scheduler.models import ApiToken
from scheduler.people import api_tokens, audit

if TYPE_CHECKING:
    from datetime import datetime

    from rest_framework.request import Request


class TokenOut(serializers.ModelSerializer[ApiToken]):
    """A token, without its text."""

    scopes = serializers.SerializerMethodField()

    class Meta:
        """What is told of it."""

        model = ApiToken
        fields = ("id", "name", "scopes", "created_at", "expire_at", "last_used_on")

    def get_scopes(self, token: ApiToken) -> list[str]:
        """Name them."""
        return api_tokens.scopes_of(token)


class NewTokenOut(TokenOut):
    """A token that was just made: its text is told this once."""

    token = serializers.CharField()

    class Meta:
        """The same, and the text."""

        model = ApiToken
        fields = (*TokenOut.Meta.fields, "token")


class NewToken(Strict):
    """What a token shall be; by whom, unless another token says it."""

    email = serializers.CharField(required=False, max_length=254, help_text="With `password`.")
    password = serializers.CharField(
        required=False, max_length=1000, trim_whitespace=False, help_text="With `email`."
    )
    name = serializers.CharField(max_length=api_tokens.MAX_NAME, help_text="What it is for.")
    scopes = serializers.ListField(
        child=serializers.ChoiceField([str(scope) for scope in Scope]),
        required=False,
        min_length=1,
        max_length=len(Scope),
        help_text="The default is all that the account, or the token in use, may give, except "
        "`administer`.",
    )
    expires_in_seconds = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=INT4
    )


class Tokens(Endpoint):
    """One's own tokens."""

    queryset = ApiToken.objects.none()

    @operation(
        "List one's own tokens",
        name="list_tokens",
        tag="tokens",
        answer=TokenOut,
        listed=True,
        access=Access.ANY,
    )
    def get(self, request: Request) -> Response:
        """Those that were not revoked, newest first; never their texts."""
        return self.page(api_tokens.of_account(self.account), TokenOut)

    @operation(
        "Make a token",
        name="create_token",
        tag="tokens",
        answer=NewTokenOut,
        status=201,
        body=NewToken,
        access=Access.OPTIONAL,
        problems=(403, 429),
    )
    def post(self, request: Request) -> Response:
        """By e-mail address and password, or by a token, which gives no scopes above its own.

        The text of the new token is answered this once. A token that is made by another one lives
        no longer than that.
        """
        wishes, now = self.body(), self.now
        seconds = wishes.get("expires_in_seconds")
        asked: dict[str, Any] = {
            "name": wishes["name"],
            "expire_at": None if seconds is None else now + timedelta(seconds=seconds),
            "now": now,
        }
        try:
            token, text = self._make(wishes, asked)
        except api_tokens.WrongPassword as refusal:
            raise Problem(401, "wrong_password", str(refusal)) from refusal
        except api_tokens.TokenRefused as refusal:
            raise Problem(403, "token_refused", str(refusal)) from refusal
        token.token = text  # type: ignore[attr-defined]  # for the serializer, this once
        return Response(NewTokenOut(token).data, status=201, headers={"Cache-Control": "no-store"})

    def _make(self, wishes: dict[str, Any], asked: dict[str, Any]) -> tuple[ApiToken, str]:
        email, password = wishes.get("email"), wishes.get("password")
        if email is None and password is None and self.request.auth is not None:
            parent = cast("ApiToken", self.request.auth)
            scopes = wishes.get("scopes") or [
                scope for scope in api_tokens.effective_scopes(parent) if scope != "administer"
            ]
            return api_tokens.create_by_token(parent, **asked, scopes=scopes)
        if email is None or password is None:
            msg = "It is not said who asks. Hint: send `email` and `password`, or a token."
            raise Problem(401, "not_authenticated", msg)
        account = api_tokens.of_password(
            email=email,
            password=password,
            address=str(self.request.META.get("REMOTE_ADDR", "")),
            now=asked["now"],
        )
        audit.identify(account)
        scopes = wishes.get("scopes") or api_tokens.default_scopes(account)
        return api_tokens.create(account=account, **asked, scopes=scopes)


class OneToken(Endpoint):
    """One of one's own tokens."""

    @operation(
        "Revoke a token",
        name="revoke_token",
        tag="tokens",
        answer=None,
        status=204,
        access=Access.ANY,
    )
    def delete(self, request: Request, token_id: int) -> Response:
        """Permanent and immediate. Revokes tokens created with it, too. Also for the one in use."""
        now: datetime = self.now
        if not api_tokens.revoke(account=self.account, token_id=token_id, now=now):
            raise Http404
        return Response(status=204)


urlpatterns = [
    path("tokens", Tokens.as_view()),
    path("tokens/<id:token_id>", OneToken.as_view()),
]
