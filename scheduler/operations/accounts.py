"""Create accounts, check and change passwords [operations].

Theory of operation.  One secret serves the client's dialog and the web form: BOINC's
``md5(password + lower(e-mail))``, here the *password digest*, of which Django's hash is stored.
Keys, which a client shows ever after, are the business of `operations.account_keys`.

Errors carry `error_num`, BOINC's number for them.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.hashers import check_password as matches_hash
from django.contrib.auth.hashers import make_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from scheduler.models import Account
from scheduler.operations import audit
from scheduler.operations.account_keys import (
    AccountRefused,
    BadName,
    UnknownKey,
    first_keys,
    lock,
    new_key,
    renew_weak_key,
    revoke_key,
    said_key,
)
from scheduler.operations.audit import Event
from scheduler.queries.accounts import KeyOwner, find_account_by_email, find_account_by_key

if TYPE_CHECKING:
    from django.db.models.expressions import Combinable
    from django.http import HttpRequest

__all__ = [
    "AccountCreationDisabled",
    "AccountRefused",
    "BadEmail",
    "BadName",
    "BadPasswordDigest",
    "Credentials",
    "EmailTaken",
    "KeyOwner",
    "MasterPasswordBackend",
    "UnknownEmail",
    "UnknownKey",
    "WrongPassword",
    "change_password",
    "create_account",
    "create_staff",
    "find_account_by_key",
    "look_up",
    "new_key",
    "password_digest",
    "revoke_key",
]

_DIGEST = re.compile(r"[0-9a-f]{32}")
_MAX_NAME, _MAX_EMAIL = 254, 254


class BadPasswordDigest(AccountRefused):
    """What came is no password digest. Hint: send md5(password + lower-case e-mail) in hex."""


class UnknownEmail(AccountRefused):
    """No account has this e-mail address. Hint: check its spelling, or create an account."""

    error_num = -136


class EmailTaken(AccountRefused):
    """The e-mail address has an account, of another password. Hint: log in, or take another."""

    error_num = -137


class BadEmail(AccountRefused):
    """This is no e-mail address. Hint: check its spelling."""

    error_num = -205


class WrongPassword(AccountRefused):
    """The password is another. Hint: check it; the e-mail address is part of it."""

    error_num = -206


class AccountCreationDisabled(AccountRefused):
    """The project takes no new accounts from clients. Hint: ask its staff for one."""

    error_num = -208


@dataclass(frozen=True, slots=True)
class Credentials:
    """An account and the strong key by which a client says whose it is."""

    account: Account
    key: str
    created: bool = False


def password_digest(*, email: str, password: str) -> str:
    """BOINC's digest of a password: 32 hex digits, as a client computes it (PROTOCOL 1.3).

    >>> password_digest(email="Ada@Example.org", password="secret")
    'b8b0a22f0c0d0a881714ce1bca6b58c4'
    """
    return hashlib.md5((password + email.lower()).encode(), usedforsecurity=False).hexdigest()


def create_account(
    *, email: str, passwd_hash: str, name: str, by_staff: bool = False, now: datetime
) -> Credentials:
    """Create an account, or return the one that exists with this very password (PROTOCOL 1.4).

    Refuses: a bad digest, address or name; a taken address with another password (`EmailTaken`);
    all but staff while the project takes no new accounts (`AccountCreationDisabled`).
    """
    email = email.strip().lower()
    _check_digest(passwd_hash)
    if existing := find_account_by_email(email):
        return _existing(existing, passwd_hash)
    if not (by_staff or settings.PROJECT.account_creation):
        msg = f"{settings.PROJECT.name} takes no new accounts. Hint: ask its staff for one."
        raise AccountCreationDisabled(msg)
    fields = {"email": _good_email(email), "name": _good_name(name)}
    try:
        return _create(passwd_hash, now, fields)
    except IntegrityError:
        # Somebody, most likely the same client, was faster by a moment.
        if existing := find_account_by_email(email):
            return _existing(existing, passwd_hash)
        raise


def create_staff(
    *,
    email: str,
    password: str,
    name: str = "",
    now: datetime | None = None,
    **fields: Any,
) -> Account:
    """Create a member of staff with every right; `now` None means the database's clock.

    Refuses an address that is taken (`EmailTaken`) or none (`BadEmail`), and an empty password.
    """
    email = _good_email(email.strip().lower())
    if not password:
        msg = "The password is empty. Hint: give one."
        raise BadPasswordDigest(msg)
    digest = password_digest(email=email, password=password)
    fields = {"is_staff": True, "is_superuser": True, **fields, "email": email}
    fields["name"] = _good_name(name or email.partition("@")[0])
    try:
        account = _create(digest, now or Now(), fields).account
    except IntegrityError as error:
        raise EmailTaken(_taken(email)) from error
    account.refresh_from_db()
    return account


def look_up(*, email: str, passwd_hash: str | None) -> Credentials | None:
    """Log in: find an account's current strong key (PROTOCOL 1.3).

    Without `passwd_hash` only the account's existence is asked for: None says that it exists.
    Refuses an address without account (`UnknownEmail`) and another password (`WrongPassword`).
    """
    account = find_account_by_email(email)
    if account is None or not account.is_active:
        msg = f"No account has the e-mail address {email.strip()[:80]!r}. Hint: check its spelling."
        raise UnknownEmail(msg)
    if passwd_hash is None:
        return None
    key = said_key(account)
    if not _matches(account, passwd_hash, key):
        msg = "The password is wrong. Hint: check it, and the e-mail address, which is part of it."
        raise WrongPassword(msg)
    return Credentials(account, key)


def change_password(*, account: Account, passwd_hash: str, now: datetime) -> Credentials:
    """Change the password; the weak key is made anew, the strong keys stay.

    Refuses what is no digest (`BadPasswordDigest`).
    """
    _check_digest(passwd_hash)
    stored = make_password(passwd_hash)
    with transaction.atomic():
        locked = lock(account)
        locked.password = stored
        locked.save(update_fields=["password"])
        key = said_key(locked)
        renew_weak_key(locked, key, now)
    account.password = stored
    return Credentials(account, key)


class MasterPasswordBackend(ModelBackend):
    """Logs people in to the web and the admin by e-mail and password, as their client does."""

    def authenticate(
        self,
        request: HttpRequest | None,  # noqa: ARG002  Django's signature
        username: str | None = None,
        password: str | None = None,
        **kwargs: Any,
    ) -> Account | None:
        """Return the account if the password is its own, else None."""
        email = username or kwargs.get(Account.USERNAME_FIELD)
        if not email or password is None:
            return None
        digest = password_digest(email=email.strip(), password=password)
        account = find_account_by_email(email)
        if account is None:
            make_password(digest)  # takes as long as a check: who has an account stays untold
            return None
        if not account.is_active or not account.check_password(digest):
            return None
        return account


def _create(passwd_hash: str, now: datetime | Combinable, fields: dict[str, Any]) -> Credentials:
    account = Account(
        password=make_password(passwd_hash),
        cross_project_id=secrets.token_hex(16),
        created_at=now,
        **fields,
    )
    with transaction.atomic():
        account.save(force_insert=True)
        key = first_keys(account, now)
        account.refresh_from_db(fields=["created_at"])
        audit.record(
            Event.ACCOUNT_CREATED,
            now=account.created_at,
            subject=account.email,
            details={"is_staff": account.is_staff, "is_superuser": account.is_superuser},
        )
    return Credentials(account, key, created=True)


def _existing(account: Account, passwd_hash: str) -> Credentials:
    if not account.is_active or not account.check_password(passwd_hash):
        raise EmailTaken(_taken(account.email))
    return Credentials(account, said_key(account))


def _taken(email: str) -> str:
    return (
        f"{email} has an account already. Hint: log in with its password, or use another address."
    )


def _matches(account: Account, passwd_hash: str, key: str) -> bool:
    # BOINC's server takes md5(authenticator + e-mail) as well (PROTOCOL 1.3).
    # The client's dialog has the address in lower case, as it is stored.
    by_key = hashlib.md5((key + account.email).encode(), usedforsecurity=False).hexdigest()
    return hmac.compare_digest(by_key, passwd_hash.lower()) or matches_hash(
        passwd_hash.lower(), account.password
    )


def _check_digest(passwd_hash: str) -> None:
    if not _DIGEST.fullmatch(passwd_hash):
        msg = (
            f"The password digest has {len(passwd_hash)} characters. "
            "Hint: send md5(password + lower-case e-mail), 32 lower-case hex digits."
        )
        raise BadPasswordDigest(msg)


def _good_email(email: str) -> str:
    try:
        validate_email(email)
    except ValidationError:
        msg = f"{email[:80]!r} is not an e-mail address. Hint: check its spelling."
        raise BadEmail(msg) from None
    if len(email) > _MAX_EMAIL:
        msg = f"The e-mail address has {len(email)} characters. Hint: {_MAX_EMAIL} are stored."
        raise BadEmail(msg)
    return email


def _good_name(name: str) -> str:
    stripped = name.strip()
    if (
        not 0 < len(stripped) <= _MAX_NAME
        or not stripped.isprintable()
        or set("<>") & set(stripped)
    ):
        msg = f"{name[:60]!r} is not a name. Hint: give 1 to {_MAX_NAME} characters, no < or >."
        raise BadName(msg)
    return stripped
