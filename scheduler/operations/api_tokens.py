"""Make, recognise and revoke tokens by which programs speak [operations]."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from datetime import datetime

from django.db.models import Q

from scheduler.models import Account, ApiToken

#: What a token begins with, so that people and scanners know one when they see it.
PREFIX = "mh_"
SCOPES = ("read", "submit", "administer")
_MAX_NAME = 100


class TokenRefused(ValueError):
    """No token can be made so. Hint: the message says what to change."""


def create(
    *,
    account: Account,
    name: str,
    scopes: Collection[str],
    expire_at: datetime | None = None,
    now: datetime,
) -> tuple[ApiToken, str]:
    """Make a token; its text is returned this once.  Raises `TokenRefused`."""
    if not 0 < len(name) <= _MAX_NAME:
        msg = f"A token's name has {len(name)} characters. Hint: give 1 to {_MAX_NAME}."
        raise TokenRefused(msg)
    if unknown := set(scopes) - set(SCOPES):
        msg = f"There is no scope {min(unknown)!r}. Hint: the scopes are {', '.join(SCOPES)}."
        raise TokenRefused(msg)
    if not scopes:
        msg = f"The token is good for nothing. Hint: give one of {', '.join(SCOPES)}."
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
    if not text.startswith(PREFIX):
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
