"""Changes and confirms the e-mail addresses of accounts.

Theory of operation.  BOINC's digest of a password contains the e-mail address, so an address cannot
change without the password.  `request` checks the password and stores the hash of the digest for
the new address.  The link that is mailed to the new address calls `confirm`, which replaces the
address, the hash and the weak key in one transaction.  Strong keys stay, so attached computers
notice nothing.

Every account has exactly one row of allauth's `EmailAddress`.  A confirmed address gets a new row,
because allauth's links refer to the row's id: a link to the former address must not confirm the
next one.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from allauth.account.models import EmailAddress
from django.contrib.auth.hashers import make_password
from django.db import IntegrityError, transaction

from scheduler.models import Account, EmailChange
from scheduler.people import accounts, audit, throttle
from scheduler.people.account_keys import (
    AccountRefused,
    key_hash,
    lock,
    login_key,
    renew_weak_key,
)
from scheduler.people.audit import Event
from scheduler.people.personal_data import consents

#: Time for which the link to the new address is valid.
VALID_FOR = timedelta(days=1)


class SameEmail(AccountRefused):
    """The account already has this address. Hint: give another one."""


class BadLink(AccountRefused):
    """The link is unknown, was used, or has expired. Hint: request another change."""


@dataclass(frozen=True, slots=True)
class Requested:
    """A requested change: the addresses, and the secret text of the link for the new address."""

    account: Account
    old_email: str
    new_email: str
    token: str
    expire_at: datetime


def request(
    *, account: Account, email: str, password: str, address: str, now: datetime
) -> Requested:
    """Store a change of the account's address until the new address confirms it.

    Replaces an earlier request.  The caller mails the link to the new address, and a warning to the
    old one.  Raises `BadEmail`, `SameEmail`, `EmailTaken`, `WrongPassword`, `TooManyAttempts` and
    `HashQueueFull`.
    """
    email = accounts.good_email(email.strip().lower())
    if email == account.email:
        raise SameEmail(f"Your address already is {email}. Hint: give another one.")
    checked = accounts.log_in(
        email=account.email,
        password=password,
        door="email_change",
        address=address,
        now=now,
    )
    if checked is None or checked.pk != account.pk:
        raise accounts.WrongPassword("The password is wrong. Hint: check it.")
    throttle.charge_mail(door="email_change", email=email, address=address, now=now)
    if accounts.find_account_by_email(email):
        raise accounts.EmailTaken(accounts.taken(email))
    stored = make_password(accounts.password_digest(email=email, password=password))
    token = secrets.token_urlsafe(32)
    with transaction.atomic():
        locked = lock(account)
        if locked.password != checked.password:
            raise accounts.WrongPassword("The password was changed meanwhile. Hint: log in again.")
        change, _ = EmailChange.objects.update_or_create(
            account=locked,
            defaults={
                "email": email,
                "password": stored,
                "token_hash": key_hash(token),
                "created_at": now,
                "expire_at": now + VALID_FOR,
            },
        )
        audit.record(
            Event.EMAIL_CHANGE_REQUESTED, now=now, subject=locked.email, details={"to": email}
        )
    return Requested(locked, locked.email, email, token, change.expire_at)


def pending(account: Account, *, now: datetime) -> EmailChange | None:
    """Return the account's change that waits for its confirmation, or None."""
    return EmailChange.objects.filter(account=account, expire_at__gt=now).first()


def find(token: str, *, now: datetime) -> EmailChange:
    """Return the pending change of a link, with its account; raise `BadLink` for an unknown one."""
    change = (
        EmailChange.objects.select_related("account")
        .filter(token_hash=key_hash(token), expire_at__gt=now, account__is_active=True)
        .first()
    )
    if change is None:
        raise BadLink(
            "This link is not valid: it was used before, was replaced by a newer one, or is older "
            "than a day. Hint: request the change again on the page of your account."
        )
    return change


def confirm(token: str, *, now: datetime) -> Account:
    """Carry out the change of a link, and return the account.

    The address, the password's hash and the weak key change together.  Sessions end, because they
    contain a hash of the stored password.  Raises `BadLink`, also for the second use of a link, and
    `EmailTaken` if another account took the address in the meantime.
    """
    requested = find(token, now=now)
    try:
        with transaction.atomic():
            account = lock(requested.account)
            # The request is read again under the lock: another process may have used the link.
            change = find(token, now=now)
            old = account.email
            consents.drop_letters(account)  # their copies have the old address
            account.email, account.password = change.email, change.password
            account.save(update_fields=["email", "password"])
            change.delete()
            _replace_email_address(account, confirmed=True)
            renew_weak_key(account, login_key(account), now)
            audit.record(Event.EMAIL_CHANGED, now=now, subject=account.email, details={"from": old})
    except IntegrityError as error:
        raise accounts.EmailTaken(accounts.taken(requested.email)) from error
    return account


def cancel(account: Account) -> bool:
    """Drop the account's pending change; return False if there was none."""
    return bool(EmailChange.objects.filter(account=account).delete()[0])


def confirm_address(email_address: EmailAddress, *, now: datetime) -> bool:
    """Mark the address as confirmed, after its owner used a link that was mailed to it.

    Returns False if the address is no longer that of the account.
    """
    with transaction.atomic():
        rows = EmailAddress.objects.filter(
            pk=email_address.pk, user__email=email_address.email, verified=False
        )
        confirmed = bool(rows.update(verified=True))
        if confirmed:
            audit.record(Event.EMAIL_CONFIRMED, now=now, subject=email_address.email)
    return confirmed


def _replace_email_address(account: Account, *, confirmed: bool) -> None:
    EmailAddress.objects.filter(user=account).delete()
    EmailAddress.objects.create(user=account, email=account.email, primary=True, verified=confirmed)
