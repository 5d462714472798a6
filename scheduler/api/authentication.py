"""Authenticates bearer tokens, and checks the scopes that operations require."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from django.http import Http404
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.permissions import BasePermission

from scheduler.api.http.openapi_operation import Access, Scope, spec_of
from scheduler.people import api_tokens
from scheduler.pool import host_tokens
from scheduler.rights import Right

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.views import APIView

    from scheduler.models import Account, ApiToken

_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class BearerToken(BaseAuthentication):
    """Authenticates requests with the header ``Authorization: Bearer mh_...``.

    `request.auth` is the row of the token.
    """

    def authenticate(self, request: Request) -> tuple[Account, ApiToken] | None:
        """Return the account and the token, or None if the request is public or has no token.

        Raises `AuthenticationFailed` if the scheme is not Bearer or the token is invalid.
        """
        access = required_access(request.parser_context.get("view"), request.method)
        if access is Access.PUBLIC:
            return None
        words = get_authorization_header(request).split()
        if not words or access is Access.POOL:
            return None
        if words[0].lower() != b"bearer":
            msg = (
                "The Authorization header has an unsupported scheme. "
                "Hint: send `Authorization: Bearer mh_...`."
            )
            raise AuthenticationFailed(msg)
        text = words[1].decode("ascii", "replace") if len(words) == 2 else ""  # noqa: PLR2004  scheme and token
        token = api_tokens.recognize(text, now=timezone.now())
        if token is None:
            msg = (
                "The token is unknown, expired or revoked. "
                "Hint: create a new one with `scientist login` or POST /api/v1/tokens."
            )
            raise AuthenticationFailed(msg)
        return token.account, token

    def authenticate_header(self, request: Request) -> str:
        """Return the value of the header `WWW-Authenticate` of a 401 response."""
        return "Bearer"


#: The right that an account needs for every operation of a scope.  Handlers check the rights that
#: depend on the object, such as the right to change an app.
_RIGHT_OF_SCOPE = {Scope.ADMINISTER: Right.ADMINISTER_PROJECT}


def may(request: Request, scope: Scope) -> bool:
    """Return whether the token has the scope and its account has the right for the scope."""
    token = cast("ApiToken | None", request.auth)
    if token is None or not getattr(token, f"may_{scope}"):
        return False
    right = _RIGHT_OF_SCOPE.get(scope)
    return right is None or token.account.has_right(right)


def has_right(request: Request, right: Right) -> bool:
    """Return whether the account has the right and the token's scopes allow it."""
    token = cast("ApiToken | None", request.auth)
    return token is not None and token.account.has_right(right)


def required_access(view: object, method: str | None) -> Scope | Access:
    """Return the access that a method needs, from its `operation` or the view's scopes."""
    spec = spec_of(view, method)
    if spec is not None and spec.access is not None:
        return spec.access
    if method in _READS:
        return cast("Scope", getattr(view, "read_scope", Scope.READ))
    return cast("Scope", getattr(view, "write_scope", Scope.SUBMIT))


class NeedsScope(BasePermission):
    """Requires the scope of a method: the view's `read_scope` or `write_scope`.

    The defaults are `Scope.READ` and `Scope.SUBMIT`.  The `operation` of a method can set another
    scope (`access`) and a second sufficient scope (`or_scope`).
    """

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Return True if the request has the access that the operation requires.

        Raises `PermissionDenied` if the token lacks the scope.  Returns False if the token is
        missing, for which Django REST framework returns 401.
        """
        access = required_access(view, request.method)
        if access is Access.POOL:
            return _is_of_pool(request)
        if not isinstance(access, Scope):
            return access is not Access.ANY or request.auth is not None
        spec = spec_of(view, request.method)
        second = spec.or_scope if spec is not None else None
        if may(request, access) or (second is not None and may(request, second)):
            return True
        if request.auth is None:
            return False
        raise missing_scope(request, access)


def _is_of_pool(request: Request) -> bool:
    """Store the host of a host token in `request.auth`; raises Http404 for other callers.

    Raises `AuthenticationFailed` for a host token that is not valid, so that the operator of a host
    knows the reason.
    """
    words = get_authorization_header(request).split()
    is_bearer = len(words) == 2 and words[0].lower() == b"bearer"  # noqa: PLR2004  scheme and token
    text = words[1].decode("ascii", "replace") if is_bearer else ""
    if not text.startswith(host_tokens.PREFIX):
        raise Http404
    pool_host = host_tokens.recognize(text, now=timezone.now())
    if pool_host is None:
        msg = (
            "The host token is unknown, expired or revoked, or its host is denied. "
            "Hint: create another one with `manage.py pool enroll HOST`."
        )
        raise AuthenticationFailed(msg)
    request.auth = pool_host
    return True


def missing_scope(request: Request, scope: Scope) -> PermissionDenied:
    """Return the error for a token that lacks the scope, or an account that lacks the right."""
    token = cast("ApiToken", request.auth)
    if not getattr(token, f"may_{scope}"):
        return PermissionDenied(
            f"The token lacks the scope {str(scope)!r}. Hint: create a token that has it, with "
            f"`scientist login URL --email E --scope {scope}` or POST /tokens. Repeat --scope for "
            "more scopes. Without --scope, the token has all your scopes except administer."
        )
    return PermissionDenied(
        f"{token.account} may not do this: scope {str(scope)!r} needs the right "
        f"{str(_RIGHT_OF_SCOPE[scope])!r}. Hint: ask the project's staff for a role that has it: "
        f"`manage.py role give {token.account.email} operator`."
    )
