"""Who speaks, and for what: bearer tokens and their scopes."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission

from scheduler.api.operation import Access, Scope, described
from scheduler.operations import api_tokens

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.views import APIView

    from scheduler.models import Account, ApiToken

__all__ = ["BearerToken", "NeedsScope", "Scope", "may", "needed"]

_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class BearerToken(BaseAuthentication):
    """``Authorization: Bearer mh_...``: `request.user` is the account, `request.auth` the token."""

    def authenticate(self, request: Request) -> tuple[Account, ApiToken] | None:
        """Find whose token it is; None if none is shown, or nobody asks."""
        if needed(request.parser_context.get("view"), request.method) is Access.PUBLIC:
            return None
        words = get_authorization_header(request).split()
        if not words:
            return None
        if words[0].lower() != b"bearer":
            msg = (
                "The Authorization header is of another scheme. "
                "Hint: send `Authorization: Bearer mh_...`."
            )
            raise AuthenticationFailed(msg)
        shown = words[1].decode("ascii", "replace") if len(words) == 2 else ""  # noqa: PLR2004  scheme and token
        token = api_tokens.recognise(shown, now=timezone.now())
        if token is None:
            msg = (
                "The token is unknown, expired or revoked. "
                "Hint: make a new one by scientist login or POST /tokens."
            )
            raise AuthenticationFailed(msg)
        return token.account, token

    def authenticate_header(self, request: Request) -> str:
        """Name the scheme, as HTTP wants it beside a 401."""
        return "Bearer"


def may(request: Request, scope: Scope) -> bool:
    """Whether who speaks may do this kind of thing at all; `administer` is for staff alone."""
    token = cast("ApiToken | None", request.auth)
    if token is None:
        return False
    if scope is Scope.ADMINISTER:
        return token.may_administer and token.account.is_staff
    return bool(getattr(token, f"may_{scope}"))


def needed(view: object, method: str | None) -> Scope | Access:
    """Say what a method of a view asks for: what its `operation` says, else the view."""
    says = described(view, method)
    if says is not None and says.access is not None:
        return says.access
    if method in _READS:
        return cast("Scope", getattr(view, "read_scope", Scope.READ))
    return cast("Scope", getattr(view, "write_scope", Scope.SUBMIT))


class NeedsScope(BasePermission):
    """Asks for the scope that the view names for this method: `read_scope`, `write_scope`.

    A view says ``read_scope = Scope.READ`` (the default) and ``write_scope = Scope.SUBMIT``; the
    `operation` of a method may say otherwise.
    """

    message = "The token has not the scope for this. Hint: make one with the scope it needs."

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Whether the token has the scope."""
        asked = needed(view, request.method)
        if isinstance(asked, Scope):
            return may(request, asked)
        return asked is not Access.ANY or request.auth is not None
