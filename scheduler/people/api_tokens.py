"""Creates, checks and revokes API tokens."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from datetime import datetime

from django.db import transaction
from django.db.models import Q, QuerySet

from scheduler.models import Account, ApiToken
from scheduler.people import audit, roles, second_factors
from scheduler.people.account_keys import lock
from scheduler.people.accounts import log_in
from scheduler.people.audit import Event
from scheduler.rights import OWN_SCOPES, SCOPES

#: Prefix of every token; secret scanners search for it.
PREFIX = "mh_"
MAX_NAME = 100
#: Maximum length of a token; a longer text is rejected without hashing.
_MAX_LENGTH = 200


class TokenRefused(ValueError):
    """The requested token is not allowed. Hint: see the message."""


class SecondFactorNeeded(ValueError):
    """A password alone is not sufficient for this account. Hint: use the site, see the message."""


class WrongPassword(ValueError):
    """The log-in failed, or the password was changed during the request. Hint: log in again."""


def of_password(
    *, email: str, password: str, address: str, page: str = "/account/tokens/", now: datetime
) -> Account:
    """Return the account with this e-mail address and password.

    Raises `WrongPassword` for an unknown address, a wrong password and an inactive account.  Raises
    `SecondFactorNeeded` for an account with a second factor, which a stolen password must not
    bypass, and for staff without the second factor that the project requires; `page` is the page of
    the site that the hint names.  Also raises `TooManyAttempts` and `HashQueueFull`.
    """
    account = log_in(email=email, password=password, door="tokens", address=address, now=now)
    if account is None:
        raise WrongPassword("No account has this e-mail address and password. Hint: check both.")
    if second_factors.has_one(account):
        raise SecondFactorNeeded(
            f"{account.email} has a second factor, so its password alone is not sufficient. "
            f"Hint: log in to the project's site with a code, and use the page {page}."
        )
    if second_factors.is_missing(account):
        raise SecondFactorNeeded(
            f"{account.email} is a member of the project's staff and has no second factor. "
            f"Hint: set one up on the page /account/two-factor/ of the project's site, and use the "
            f"page {page}."
        )
    return account


def refuse_with_second_factor(account: Account, *, page: str) -> None:
    """Raise `SecondFactorNeeded` if the account has a second factor, which tokens do not prove.

    For operations that the site allows only after a second factor; `page` is the page of the site
    that the hint names.
    """
    if second_factors.has_one(account):
        raise SecondFactorNeeded(
            f"{account.email} has a second factor, which a token does not prove. "
            f"Hint: log in to the project's site with a code, and use the page {page}."
        )


def create_by_token(
    parent: ApiToken,
    *,
    name: str,
    scopes: Collection[str],
    expire_at: datetime | None = None,
    now: datetime,
) -> tuple[ApiToken, str]:
    """Create a token with the token `parent`; return its row and its text.

    Without `expire_at`, the token expires at the same time as `parent`.  Raises `TokenRefused` for
    a scope that `parent` lacks or an expiry later than that of `parent`, and the exceptions of
    `create`.
    """
    if missing_scopes := [
        scope for scope in scopes if scope in SCOPES and scope not in scopes_of(parent)
    ]:
        raise TokenRefused(
            f"The token in use lacks the scope {missing_scopes[0]!r}. "
            "Hint: log in with e-mail address and password to create a token with this scope."
        )
    if parent.expire_at is not None:
        if expire_at is not None and expire_at > parent.expire_at:
            raise TokenRefused(
                f"The token in use expires at {parent.expire_at:%Y-%m-%dT%H:%M:%SZ}, before "
                "the new token. Hint: choose an earlier expiry, or log in with e-mail address and "
                "password."
            )
        expire_at = expire_at or parent.expire_at
    return create(
        account=parent.account,
        name=name,
        scopes=scopes,
        expire_at=expire_at,
        parent=parent,
        now=now,
    )


def scopes_of(token: ApiToken) -> list[str]:
    """Return the scopes stored with a token, in the order of `SCOPES`."""
    return [scope for scope in SCOPES if getattr(token, f"may_{scope}")]


def default_scopes(account: Account) -> list[str]:
    """Return the default scopes of a new token: all grantable scopes except `administer`."""
    return [scope for scope in roles.grantable_scopes(account) if scope != "administer"]


def effective_scopes(token: ApiToken) -> list[str]:
    """Return the scopes of a token that its account may still grant."""
    scopes = scopes_of(token)
    if OWN_SCOPES.issuperset(scopes):
        return scopes
    grantable = roles.grantable_scopes(token.account)
    return [scope for scope in scopes if scope in grantable]


def of_account(account: Account) -> QuerySet[ApiToken]:
    """Return an account's unrevoked tokens, including expired tokens."""
    return ApiToken.objects.filter(account=account, revoked_at__isnull=True)


def create(
    *,
    account: Account,
    name: str,
    scopes: Collection[str],
    expire_at: datetime | None = None,
    parent: ApiToken | None = None,
    now: datetime,
) -> tuple[ApiToken, str]:
    """Create a token; return its row and its text, which is not stored.

    Raises `TokenRefused` for an invalid name, scope or expiry and for a revoked `parent`.  Raises
    `WrongPassword` if the password was changed after `account` was read.
    """
    if not 0 < len(name) <= MAX_NAME:
        msg = f"A token's name has {len(name)} characters. Hint: give 1 to {MAX_NAME}."
        raise TokenRefused(msg)
    if unknown := set(scopes) - set(SCOPES):
        msg = f"There is no scope {min(unknown)!r}. Hint: the scopes are {', '.join(SCOPES)}."
        raise TokenRefused(msg)
    if not scopes:
        raise TokenRefused(f"The token has no scope. Hint: give one of {', '.join(SCOPES)}.")
    grantable = roles.grantable_scopes(account)
    if refused_scopes := [scope for scope in SCOPES if scope in scopes and scope not in grantable]:
        raise TokenRefused(
            f"{account} may not give the scope {refused_scopes[0]!r}. "
            f"Hint: ask for {', '.join(grantable)}, or ask the project's staff for a role."
        )
    if expire_at is not None and expire_at <= now:
        msg = "The expiry of the token is in the past. Hint: give a later time, or none."
        raise TokenRefused(msg)
    text = PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        _require_same_password(account)
        if parent is not None:
            _require_live(parent)
        token = ApiToken.objects.create(
            account=account,
            parent=parent,
            name=name,
            token_hash=_hash(text),
            **{f"may_{scope}": scope in scopes for scope in SCOPES},
            expire_at=expire_at,
            created_at=now,
        )
        audit.record(
            Event.TOKEN_CREATED,
            now=now,
            subject=f"token {token.pk}",
            details={
                "account": account.email,
                "name": name,
                "scopes": scopes_of(token),
                "expire_at": None if expire_at is None else expire_at.isoformat(),
            },
        )
    return token, text


def _require_live(parent: ApiToken) -> None:
    """Raise `TokenRefused` if the token was revoked.  The caller has locked the account's row."""
    if not ApiToken.objects.filter(pk=parent.pk, revoked_at__isnull=True).exists():
        raise TokenRefused("The token in use was revoked. Hint: log in again.")


def _require_same_password(account: Account) -> None:
    """Lock the account; raise `WrongPassword` if its password changed after `account` was read.

    A password change revokes all tokens, so the old password must not create a new token.
    """
    if lock(account).password != account.password:
        raise WrongPassword("The password was changed meanwhile. Hint: log in again.")


def recognize(text: str, *, now: datetime) -> ApiToken | None:
    """Return the valid token with this text, or None.

    A revoked or expired token is invalid, as is a token of an inactive account.  The rights of
    `token.account` are limited by the token's scopes, and the account is set as the actor of later
    audit entries.  The use is recorded in the audit log once per day and address.
    """
    if not text.startswith(PREFIX) or not text.isascii() or len(text) > _MAX_LENGTH:
        return None
    token = (
        ApiToken.objects.select_related("account")
        .filter(token_hash=_hash(text), revoked_at__isnull=True, account__is_active=True)
        .filter(Q(expire_at__isnull=True) | Q(expire_at__gt=now))
        .first()
    )
    if token is None:
        return None
    token.account.act_through(scopes_of(token))
    audit.identify(token.account)
    if token.last_used_on != now.date():
        ApiToken.objects.filter(pk=token.pk).update(last_used_on=now.date())
    audit.record_daily(
        Event.TOKEN_USED, now=now, subject=f"token {token.pk}", details={"scopes": scopes_of(token)}
    )
    return token


def revoke(*, account: Account, token_id: int, now: datetime) -> bool:
    """Revoke a token of the account and all tokens created with it.

    Returns False if the account has no unrevoked token with this id.
    """
    tokens = ApiToken.objects.filter(account=account, revoked_at__isnull=True)
    with transaction.atomic():
        lock(account)  # prevents concurrent creation of tokens with this token
        revoked = bool(tokens.filter(pk=token_id).update(revoked_at=now))
        parents = [token_id] if revoked else []
        while parents:
            parents = list(tokens.filter(parent__in=parents).values_list("pk", flat=True))
            tokens.filter(pk__in=parents).update(revoked_at=now)
        if revoked:
            audit.record(
                Event.TOKEN_REVOKED,
                now=now,
                subject=f"token {token_id}",
                details={"account": account.email},
            )
    return revoked


def descendants(token_ids: Collection[int]) -> set[int]:
    """Return the ids of the unrevoked tokens that were created with these tokens.

    Tokens that were created with such tokens are among them; the given ones are not.
    """
    unrevoked = ApiToken.objects.filter(revoked_at__isnull=True)
    ids: set[int] = set()
    parents = set(token_ids)
    while parents:
        children = set(unrevoked.filter(parent__in=parents).values_list("pk", flat=True))
        parents = children - ids - set(token_ids)
        ids |= parents
    return ids


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
