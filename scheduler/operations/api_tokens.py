"""Make, recognise and revoke tokens by which programs speak [operations]."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from datetime import datetime

from django.db.models import Q, QuerySet

from scheduler.models import Account, ApiToken
from scheduler.operations.accounts import MasterPasswordBackend

#: What a token begins with, so that people and scanners know one when they see it.
PREFIX = "mh_"
SCOPES = ("read", "submit", "administer")
MAX_NAME = 100
#: A token's hash is looked for only if its text can be one of ours.
_MAX_TEXT = 200


class TokenRefused(ValueError):
    """No token can be made so. Hint: the message says what to change."""


class WrongPassword(ValueError):
    """No account has this e-mail address and password. Hint: check both."""


def of_password(*, email: str, password: str) -> Account:
    """Whose e-mail address and password these are; raises `WrongPassword`, saying not which."""
    account = MasterPasswordBackend().authenticate(None, username=email, password=password)
    if account is None:
        msg = "No account has this e-mail address and password. Hint: check both."
        raise WrongPassword(msg)
    return account


def create_by_token(
    parent: ApiToken,
    *,
    name: str,
    scopes: Collection[str],
    expire_at: datetime | None = None,
    now: datetime,
) -> tuple[ApiToken, str]:
    """Make a token that may no more, and lives no longer, than the one it is made with.

    Raises `TokenRefused`.
    """
    if more := [scope for scope in scopes if scope in SCOPES and scope not in scopes_of(parent)]:
        msg = (
            f"The token in use has not the scope {more[0]!r} itself. "
            "Hint: log in with e-mail address and password to make one that has."
        )
        raise TokenRefused(msg)
    if parent.expire_at is not None:
        if expire_at is not None and expire_at > parent.expire_at:
            msg = (
                f"The token in use expires at {parent.expire_at:%Y-%m-%dT%H:%M:%SZ}, before this "
                "one. Hint: let it expire no later, or log in with e-mail address and password."
            )
            raise TokenRefused(msg)
        expire_at = expire_at or parent.expire_at
    return create(account=parent.account, name=name, scopes=scopes, expire_at=expire_at, now=now)


def scopes_of(token: ApiToken) -> list[str]:
    """Name the scopes of a token, in the order of `SCOPES`."""
    return [scope for scope in SCOPES if getattr(token, f"may_{scope}")]


def of_account(account: Account) -> QuerySet[ApiToken]:
    """Find an account's tokens that were not revoked."""
    return ApiToken.objects.filter(account=account, revoked_at__isnull=True)


def create(
    *,
    account: Account,
    name: str,
    scopes: Collection[str],
    expire_at: datetime | None = None,
    now: datetime,
) -> tuple[ApiToken, str]:
    """Make a token; its text is returned this once.  Raises `TokenRefused`."""
    if not 0 < len(name) <= MAX_NAME:
        msg = f"A token's name has {len(name)} characters. Hint: give 1 to {MAX_NAME}."
        raise TokenRefused(msg)
    if unknown := set(scopes) - set(SCOPES):
        msg = f"There is no scope {min(unknown)!r}. Hint: the scopes are {', '.join(SCOPES)}."
        raise TokenRefused(msg)
    if not scopes:
        msg = f"The token is good for nothing. Hint: give one of {', '.join(SCOPES)}."
        raise TokenRefused(msg)
    if "administer" in scopes and not account.is_staff:
        msg = f"{account} is not of the staff. Hint: ask for scopes other than 'administer'."
        raise TokenRefused(msg)
    if expire_at is not None and expire_at <= now:
        msg = "The token would have expired already. Hint: give a later moment, or none."
        raise TokenRefused(msg)
    text = PREFIX + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        account=account,
        name=name,
        token_hash=_hash(text),
        may_read="read" in scopes,
        may_submit="submit" in scopes,
        may_administer="administer" in scopes,
        expire_at=expire_at,
        created_at=now,
    )
    return token, text


def recognise(text: str, *, now: datetime) -> ApiToken | None:
    """Find the token, with its account; None if it, or its owner, is no good any more."""
    if not text.startswith(PREFIX) or not text.isascii() or len(text) > _MAX_TEXT:
        return None
    token = (
        ApiToken.objects.select_related("account")
        .filter(token_hash=_hash(text), revoked_at__isnull=True, account__is_active=True)
        .filter(Q(expire_at__isnull=True) | Q(expire_at__gt=now))
        .first()
    )
    if token is not None and token.last_used_on != now.date():
        ApiToken.objects.filter(pk=token.pk).update(last_used_on=now.date())
    return token


def revoke(*, account: Account, token_id: int, now: datetime) -> bool:
    """Revoke one of the account's tokens for good; tells whether there was one that was not."""
    mine = ApiToken.objects.filter(account=account, pk=token_id, revoked_at__isnull=True)
    return bool(mine.update(revoked_at=now))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
