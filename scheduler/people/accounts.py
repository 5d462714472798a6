"""Creates accounts; checks and changes passwords.

Theory of operation.  BOINC clients and the web form use the same secret: the *password digest*,
``md5(password + lower(e-mail))``.  Django's hash of the digest is stored.  `people.account_keys`
manages the keys that clients send after log-in.

Every function that checks a password first charges the throttle (`people.throttle`) for `address`,
the network address of the attempt.  Shell commands pass None and are not throttled.
`project.hashers` hashes passwords in a queue, outside transactions and without a database
connection (`people.hashing`).

The attribute `error_num` of an error is BOINC's error number.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.hashers import make_password
from django.core.exceptions import ValidationError
from django.core.validators import URLValidator, validate_email
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils import timezone

from scheduler.config import AccountCreation
from scheduler.models import Account, ApiToken, EmailChange, Team
from scheduler.models import people as models
from scheduler.people import audit, invitations, throttle
from scheduler.people.account_keys import (
    AccountRefused,
    first_keys,
    good_name,
    lock,
    login_key,
    revoke_after_password_change,
)
from scheduler.people.audit import Event
from scheduler.people.hashing import HashQueueFull
from scheduler.people.personal_data import consents
from scheduler.people.personal_data.consents import ConsentNeeded
from scheduler.people.public_texts import confirmed_addresses
from scheduler.people.rules.mail_addresses import MAX_ADDRESS, BadMail, check_address

if TYPE_CHECKING:
    from django.http import HttpRequest

_DIGEST = re.compile(r"[0-9a-f]{32}")
log = logging.getLogger(__name__)

#: The check of the form of the account page, too.
_check_url = URLValidator()
_MAX_TEAM_NAME = 254
#: Maximum number of digits of an id: those of the largest `bigint`.
_MAX_ID_DIGITS = 19


class BadPasswordDigest(AccountRefused):
    """The digest is not valid, or the password is empty. Hint: see the message."""


class UnknownEmail(AccountRefused):
    """No active account has this e-mail address. Hint: check its spelling."""

    error_num = -136


class EmailTaken(AccountRefused):
    """An account with this e-mail address exists. Hint: log in, or use another address."""

    error_num = -137


class BadEmail(AccountRefused):
    """This is not an e-mail address. Hint: check its spelling."""

    error_num = -205


class BadHomePage(AccountRefused):
    """This is not an address of the web. Hint: begin it with https://."""


class WrongPassword(AccountRefused):
    """The password is wrong. Hint: check the password and the e-mail address it is hashed with."""

    error_num = -206


class EmailChanged(AccountRefused):
    """The e-mail address changed in the meantime. Hint: try again."""


class AccountCreationDisabled(AccountRefused):
    """The project accepts no new accounts from clients. Hint: ask its staff for an account."""

    error_num = -208


class BadLoginToken(AccountRefused):
    """The log-in token is unknown. Hint: log in with e-mail address and password."""

    error_num = -1


#: BOINC's digest of a password, as computed by clients.
password_digest = models.password_digest


@dataclass(frozen=True, slots=True)
class Identity:
    """A person at a provider of log-ins (OpenID Connect), who has proven to be that person."""

    provider: str
    uid: str
    confirmed_email: str = ""
    """The address of which the provider states that it belongs to the person; "" for none."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """An account and its strong key; `created` is True if the call created the account."""

    account: Account
    key: str
    created: bool = False


def create_account(  # noqa: PLR0913  the client's fields, and its address
    *,
    email: str,
    passwd_hash: str,
    name: str,
    team_name: str = "",
    by_staff: bool = False,
    invite_code: str = "",
    terms_accepted_in: str | None = None,
    address: str | None = None,
    now: datetime,
) -> Credentials:
    """Create an account, or return the existing account with this password (PROTOCOL 1.4).

    `by_staff` creates an account regardless of the project's setting.  The new account joins the
    team `team_name`.  A team that does not exist or accepts no members is ignored, because a client
    would treat an error as a failed log-in.  `terms_accepted_in` is the program in which the person
    accepted the terms of use; None if they were not accepted.

    Raises `ConsentNeeded` if the project has terms of use that were not accepted.  Raises
    `AccountRefused` for an invalid digest, address or name, and `EmailTaken` for an existing
    account that is inactive or has another password.  Raises `AccountCreationDisabled` or
    `BadInvitation` if the caller may not create accounts.  Also raises `TooManyAttempts` and
    `HashQueueFull`.
    """
    email = email.strip().lower()
    _check_digest(passwd_hash)
    with _attempt("create_account", email, address, now) as attempt:
        if existing := find_account_by_email(email):
            return _existing(existing, passwd_hash, attempt)
        if not by_staff:
            _check_open_to(invite_code, now)
            _check_terms(terms_accepted_in)
        fields = {"email": good_email(email), "name": good_name(name), "team": _team(team_name)}
        stored = _new_hash(passwd_hash, email, attempt)
        try:
            with transaction.atomic():
                if not by_staff and settings.PROJECT.account_creation is AccountCreation.INVITATION:
                    invitations.use(invite_code, now=now)
                credentials = _create(stored, now, fields)
                _record_creation(credentials.account, attempt, now)
                if terms_accepted_in is not None and settings.PROJECT.terms_of_use:
                    with throttle.attributed(attempt, credentials.account.pk):
                        consents.accept_terms(
                            credentials.account, source=terms_accepted_in, now=now
                        )
        except IntegrityError:
            # A concurrent request, most likely from the same client, created the account.
            if existing := find_account_by_email(email):
                return _existing(existing, passwd_hash, attempt)
            raise
        throttle.succeeded(attempt, credentials.account)
        return credentials


def create_account_of(
    identity: Identity,
    *,
    email: str,
    name: str,
    invite_code: str = "",
    terms_accepted_in: str | None = None,
    address: str,
    now: datetime,
) -> Account:
    """Create an account without a password, to which the identity logs in.

    Its address is confirmed if the provider states that it is the person's.  An existing account
    is never joined.  Raises `EmailTaken`, and otherwise what `create_account` raises.
    """
    email = email.strip().lower()
    with _attempt("create_account", email, address, now) as attempt:
        if find_account_by_email(email):
            throttle.failed(attempt)
            raise EmailTaken(_taken_by_password(email))
        _check_open_to(invite_code, now)
        _check_terms(terms_accepted_in)
        fields = {"email": good_email(email), "name": good_name(name)}
        throttle.charge_creation(email=email, address=address, now=now)
        try:
            with transaction.atomic():
                if settings.PROJECT.account_creation is AccountCreation.INVITATION:
                    invitations.use(invite_code, now=now)
                confirmed = email == identity.confirmed_email.lower()
                account = _create(make_password(None), now, fields, confirmed=confirmed).account
                SocialAccount.objects.create(
                    user=account, provider=identity.provider, uid=identity.uid
                )
                _record_creation(account, attempt, now)
                if terms_accepted_in is not None and settings.PROJECT.terms_of_use:
                    with throttle.attributed(attempt, account.pk):
                        consents.accept_terms(account, source=terms_accepted_in, now=now)
        except IntegrityError:
            # A concurrent request created an account with this address or identity.
            raise EmailTaken(_taken_by_password(email)) from None
        throttle.succeeded(attempt, account)
        return account


def create_without_password(*, email: str, name: str, now: datetime) -> Account:
    """Create an account whose owner sets a password with a link that is mailed to the address.

    For operators.  The account shares no statistics before its owner agrees.  Raises `BadEmail`,
    `BadName` and `EmailTaken`.
    """
    email = good_email(email.strip().lower())
    fields = {"email": email, "name": good_name(name), "share_statistics": False}
    try:
        with transaction.atomic():
            account = _create(make_password(None), now, fields).account
            _record_creation(account, None, now)
    except IntegrityError as error:
        raise EmailTaken(taken(email)) from error
    return account


def _taken_by_password(email: str) -> str:
    return (
        f"An account with the address {email} exists. "
        "Hint: log in to it, and connect this log-in on the account page."
    )


def _team(name: str) -> Team | None:
    """Return the team with this name if it accepts members, else None."""
    name = name.strip()[:_MAX_TEAM_NAME]
    if not name:
        return None
    # PostgreSQL cannot compare text that contains a NUL character.
    team = Team.objects.filter(name=name, joinable=True).first() if name.isprintable() else None
    if team is None:
        log.info("team_ignored", extra={"team_name": name})
    return team


def look_up_login_token(*, user_id: str, address: str, now: datetime) -> NoReturn:
    """Raise `BadLoginToken`: this project issues no log-in tokens for BOINC's installers.

    The call counts as a failed log-in and may raise `TooManyAttempts`.  The response does not
    reveal whether the account exists (PROTOCOL 1.4).
    """
    subject = user_id if user_id.isdecimal() and len(user_id) <= _MAX_ID_DIGITS else "unknown"
    with _attempt("login_token_lookup", f"user {subject}", address, now) as attempt:
        throttle.failed(attempt)
        msg = "The log-in token is not valid. Hint: log in with e-mail address and password."
        raise BadLoginToken(msg)


def _new_hash(passwd_hash: str, email: str, attempt: throttle.Attempt | None) -> str:
    """Charge the account creation to its network and return the hash of the digest.

    Refunds the charge and raises `HashQueueFull` if the hash queue is full.
    """
    if attempt is None:
        return make_password(passwd_hash)
    creation = throttle.charge_creation(email=email, address=attempt.address, now=attempt.now)
    try:
        return make_password(passwd_hash)
    except HashQueueFull:
        throttle.refund(creation)
        raise


def _check_open_to(invite_code: str, now: datetime) -> None:
    project = settings.PROJECT
    if project.account_creation is AccountCreation.CLOSED:
        msg = f"{project.name} does not accept new accounts. Hint: ask its staff for one."
        raise AccountCreationDisabled(msg)
    if project.account_creation is AccountCreation.INVITATION:
        invitations.require_valid(invite_code, now=now)


def _check_terms(accepted_in: str | None) -> None:
    if settings.PROJECT.terms_of_use and accepted_in is None:
        raise ConsentNeeded(
            f"{settings.PROJECT.name} has terms of use, which were not accepted. "
            "Hint: accept them in BOINC Manager, or send consent_flag=1."
        )


def create_staff(
    *,
    email: str,
    password: str,
    name: str = "",
    stored_password: str | None = None,
    now: datetime | None = None,
    **fields: Any,
) -> Account:
    """Create a superuser account; `fields` can override `is_staff` and `is_superuser`.

    `now` None means the time of the database's clock.  Callers in a transaction pass
    `stored_password`, the hash that `stored_hash` returned.  Raises `EmailTaken`, `BadEmail`,
    `BadName`, `HashQueueFull`, and `BadPasswordDigest` for an empty password.
    """
    email = good_email(email.strip().lower())
    if not password:
        raise BadPasswordDigest("The password is empty. Hint: give a password.")
    fields = {"is_staff": True, "is_superuser": True, **fields, "email": email}
    fields["name"] = good_name(name or email.partition("@")[0])
    stored = stored_password or stored_hash(email=email, password=password)
    created_at: Any = now or Now()
    try:
        with transaction.atomic():
            # The shell or a member of staff gave the address.
            account = _create(stored, created_at, fields, confirmed=True).account
            _record_creation(account, None, created_at)
    except IntegrityError as error:
        raise EmailTaken(taken(email)) from error
    account.refresh_from_db()
    if account.is_staff or account.is_superuser:
        audit.record(
            Event.RIGHTS_CHANGED,
            now=account.created_at,
            subject=account.email,
            details={"is_staff": account.is_staff, "is_superuser": account.is_superuser},
        )
    return account


def stored_hash(*, email: str, password: str) -> str:
    """Return the hash to store in `Account.password`.  Raises `HashQueueFull`."""
    return make_password(password_digest(email=email, password=password))


def look_up(
    *, email: str, passwd_hash: str | None, address: str | None = None, now: datetime
) -> Credentials | None:
    """Check a password digest; return the account and its current strong key (PROTOCOL 1.3).

    Without `passwd_hash`, only check that the account exists and return None.  Raises
    `UnknownEmail`, `WrongPassword`, `TooManyAttempts`, `HashQueueFull`.
    """
    if passwd_hash is None:
        if address is not None:
            throttle.charge_query(door="lookup_account", email=email, address=address, now=now)
        _active_account(email)
        return None
    with _attempt("lookup_account", email, address, now) as attempt:
        try:
            account = _active_account(email)
        except UnknownEmail:
            throttle.failed(attempt)
            raise
        key = login_key(account)
        if not _matches(account, passwd_hash, key):
            throttle.failed(attempt)
            raise WrongPassword(
                "The password is wrong. "
                "Hint: check the password and the e-mail address it is hashed with."
            )
        throttle.succeeded(attempt, account)
        return Credentials(account, key)


def log_in(
    *, email: str, password: str, door: str, address: str | None, record: bool = True, now: datetime
) -> Account | None:
    """Return the active account with this e-mail address and password, or None.

    `door` is the name of the interface in the audit log.  Every attempt that is not refused
    computes one hash, so that its duration does not reveal whether the account exists.  `record`
    writes an audit entry; the site passes False, because Django's log-in signals write the entry.
    Raises `TooManyAttempts`, `HashQueueFull`.
    """
    email = email.strip()
    digest = password_digest(email=email, password=password)
    with _attempt(door, email, address, now) as attempt:
        account = find_account_by_email(email)
        if account is None:
            make_password(digest)
        elif account.has_digest(digest) and account.is_active:
            throttle.succeeded(attempt, account, record=record)
            return account
        if record:
            throttle.failed(attempt)
        return None


def change_password(
    *, account: Account, passwd_hash: str, revoke_host_keys: bool = False, now: datetime
) -> Credentials:
    """Change the password and revoke credentials created with the old password.

    Sessions end, because they contain a hash of the stored password.  API tokens and submission
    keys are revoked, and the weak key is renewed.  `revoke_host_keys` also revokes the strong keys
    of attached computers: a stock BOINC client must then be attached again and loses its work in
    progress.  A pending change of the e-mail address, which holds the old password, is dropped.
    Returns the account with its current strong key.  Raises `BadPasswordDigest`, `HashQueueFull`,
    and `EmailChanged` if the address changed after `account` was read.
    """
    _check_digest(passwd_hash)
    stored = make_password(passwd_hash)
    with transaction.atomic():
        locked = lock(account)
        if locked.email != account.email:
            raise EmailChanged(
                f"The e-mail address became {locked.email}, and the digest of a password depends "
                "on it. Hint: try again."
            )
        locked.password = stored
        locked.save(update_fields=["password"])
        EmailChange.objects.filter(account=locked).delete()
        tokens = ApiToken.objects.filter(account=locked, revoked_at__isnull=True)
        revoked = {"api_tokens": tokens.update(revoked_at=now)}
        revoked |= revoke_after_password_change(locked, revoke_host_keys=revoke_host_keys, now=now)
        key = login_key(locked)
        audit.record(
            Event.PASSWORD_CHANGED,
            now=now,
            subject=locked.email,
            details={f"revoked_{name}": count for name, count in revoked.items()},
        )
    account.password = stored
    return Credentials(account, key)


def change_profile(
    account: Account,
    fields: Mapping[str, str],
    *,
    chosen: consents.Chosen | None = None,
    now: datetime,
) -> None:
    """Change what an account's owner may change without a password, also in `account`.

    `fields` has new values of `name`, `country` and `url`; omitted ones stay, and so do the
    consents without `chosen`.  Raises `BadName` and `BadHomePage`, and `UnconfirmedAddress` if
    the home page gets a new value that is not empty, and the address is not confirmed.
    """
    new = _good_profile(fields)
    consented = {} if chosen is None else asdict(chosen)
    with transaction.atomic():
        locked = consents.change(account, **consented, source="account page", now=now)
        changed = [field for field, value in new.items() if getattr(locked, field) != value]
        if "url" in changed and new["url"]:
            confirmed_addresses.require(locked)
        if changed:
            for field in changed:
                setattr(locked, field, new[field])
            locked.save(update_fields=changed)
            audit.record(
                Event.ACCOUNT_CHANGED, now=now, subject=locked.email, details={"fields": changed}
            )
    for field in (*new, *consented):
        setattr(account, field, getattr(locked, field))


def _good_profile(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a profile in their stored form; raise the refusal of a bad value."""
    good = dict(fields)
    if "name" in good:
        good["name"] = good_name(good["name"])
    if "country" in good:
        good["country"] = good["country"].strip()
    if good.get("url"):
        try:
            _check_url(good["url"])
        except ValidationError:
            raise BadHomePage(
                f"{good['url'][:60]!r} is not an address of the web. Hint: begin it with https://."
            ) from None
    return good


class MasterPasswordBackend(ModelBackend):
    """Authenticates Django's log-in by e-mail address and password."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **kwargs: Any,
    ) -> Account | None:
        """Return the account if the password is correct, else None.

        Raises `TooManyAttempts`, `HashQueueFull`.  Calls without a request are not throttled.
        """
        email = username or kwargs.get(Account.USERNAME_FIELD)
        if not email or password is None:
            return None
        address = None if request is None else str(request.META.get("REMOTE_ADDR", ""))
        return log_in(
            email=email,
            password=password,
            door="web",
            address=address,
            record=False,
            now=timezone.now(),  # noqa: TID251  Django's signature has no parameter for it
        )


@contextmanager
def _attempt(
    door: str, email: str, address: str | None, now: datetime
) -> Iterator[throttle.Attempt | None]:
    """Charge an attempt to the throttle; refund the charge if the hash queue is full.

    Yields the attempt; None if `address` is None, because shell commands are not throttled.
    """
    if address is None:
        yield None
        return
    attempt = throttle.charge(door=door, email=email, address=address, now=now)
    try:
        yield attempt
    except HashQueueFull:
        throttle.refund(attempt)
        raise


def find_account_by_email(email: str) -> Account | None:
    """Return the account with this e-mail address (in any case), or None."""
    if "\0" in email:  # PostgreSQL text cannot contain NUL
        return None
    return Account.objects.filter(email=email.strip().lower()).first()


def _active_account(email: str) -> Account:
    account = find_account_by_email(email)
    if account is None or not account.is_active:
        msg = f"No account has the e-mail address {email.strip()[:80]!r}. Hint: check its spelling."
        raise UnknownEmail(msg)
    return account


def _create(
    stored_password: str, now: datetime, fields: dict[str, Any], *, confirmed: bool = False
) -> Credentials:
    """Create the account with its keys and its `EmailAddress`, which allauth's pages read."""
    # Where statistics need a consent, a new account has not given it yet.
    shared = not settings.PROJECT.statistics_need_consent
    fields = {"share_statistics": shared, "cross_project_id": secrets.token_hex(16), **fields}
    account = Account(password=stored_password, created_at=now, **fields)
    with transaction.atomic():
        account.save(force_insert=True)
        key = first_keys(account, now)
        EmailAddress.objects.create(
            user=account, email=account.email, primary=True, verified=confirmed
        )
    return Credentials(account, key, created=True)


def _record_creation(account: Account, attempt: throttle.Attempt | None, now: datetime) -> None:
    with throttle.attributed(attempt, account.pk):
        audit.record(
            Event.ACCOUNT_CREATED,
            now=now,
            subject=account.email,
            details={"is_staff": account.is_staff, "is_superuser": account.is_superuser},
        )


def _existing(account: Account, passwd_hash: str, attempt: throttle.Attempt | None) -> Credentials:
    if not (account.has_digest(passwd_hash) and account.is_active):
        throttle.failed(attempt)
        raise EmailTaken(taken(account.email))
    throttle.succeeded(attempt, account)
    return Credentials(account, login_key(account))


def taken(email: str) -> str:
    """Return the text of `EmailTaken` for this address."""
    return (
        f"An account with the address {email} exists. "
        "Hint: log in with its password, or use another address."
    )


def _matches(account: Account, passwd_hash: str, key: str) -> bool:
    digest = passwd_hash.lower()
    if not _DIGEST.fullmatch(digest):
        return False
    # BOINC's server also accepts md5(authenticator + e-mail) (PROTOCOL 1.3).  Clients compute it
    # with the address in lower case, which is also the stored form.
    by_key = hashlib.md5((key + account.email).encode(), usedforsecurity=False).hexdigest()
    return hmac.compare_digest(by_key, digest) or account.has_digest(digest)


def _check_digest(passwd_hash: str) -> None:
    if not _DIGEST.fullmatch(passwd_hash):
        raise BadPasswordDigest(
            f"The password digest has {len(passwd_hash)} characters. "
            "Hint: send md5(password + lower-case e-mail), 32 lower-case hex digits."
        )


def good_email(email: str) -> str:
    """Return the e-mail address; raise `BadEmail` if it is invalid, or the outbox refuses it."""
    try:
        validate_email(email)
    except ValidationError:
        msg = f"{email[:80]!r} is not an e-mail address. Hint: check its spelling."
        raise BadEmail(msg) from None
    if len(email) > MAX_ADDRESS:
        msg = f"The e-mail address has {len(email)} characters. Hint: give at most {MAX_ADDRESS}."
        raise BadEmail(msg)
    try:
        return check_address(email)
    except BadMail as refusal:
        raise BadEmail(str(refusal)) from None
