"""Connects identities at providers of log-ins to accounts, and removes them."""

from __future__ import annotations

from datetime import datetime

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.db import IntegrityError, transaction

from scheduler.models import Account
from scheduler.people import audit
from scheduler.people.account_keys import AccountRefused, lock
from scheduler.people.accounts import Identity
from scheduler.people.audit import Event

#: Identities of one account.
MAX_IDENTITIES = 20


class IdentityTaken(AccountRefused):
    """The identity logs in to another account. Hint: remove it there first."""


class TooManyIdentities(AccountRefused):
    """The account has the maximum number of identities. Hint: remove one first."""


class LastLogIn(AccountRefused):
    """The identity is the only way to log in. Hint: set a password first."""


def of_account(account: Account) -> list[SocialAccount]:
    """Return the identities of the account, the oldest first."""
    return list(SocialAccount.objects.filter(user=account).order_by("pk"))


def find(account: Account, identity_id: int) -> SocialAccount | None:
    """Return the identity of the account with this id, or None."""
    return SocialAccount.objects.filter(user=account, pk=identity_id).first()


def can_log_in_with_provider(account: Account) -> bool:
    """Return whether the account has an identity at a provider that the project still has."""
    return bool(_usable(account))


def connect(account: Account, identity: Identity, *, now: datetime) -> bool:
    """Let the identity log in to the account; return False if it did so before.

    Raises `IdentityTaken` if it logs in to another account, and `TooManyIdentities`.
    """
    key = {"provider": identity.provider, "uid": identity.uid}
    with transaction.atomic():
        locked = lock(account)
        existing = SocialAccount.objects.filter(**key).first()
        if existing is not None:
            if existing.user_id == locked.pk:
                return False
            raise IdentityTaken(_TAKEN)
        if SocialAccount.objects.filter(user=locked).count() >= MAX_IDENTITIES:
            raise TooManyIdentities(
                f"An account has at most {MAX_IDENTITIES} log-ins with other sites. "
                "Hint: remove one first."
            )
        try:
            with transaction.atomic():
                SocialAccount.objects.create(user=locked, **key)
        except IntegrityError:
            raise IdentityTaken(_TAKEN) from None
        _record(locked, now=now, connected=identity.provider)
    return True


_TAKEN = "This log-in belongs to another account. Hint: remove it there first."


def disconnect(account: Account, identity_id: int, *, now: datetime) -> bool:
    """Remove an identity from the account; return False if it has no such identity.

    Raises `LastLogIn` if nothing else logs in to the account.
    """
    with transaction.atomic():
        locked = lock(account)
        identity = SocialAccount.objects.filter(user=locked, pk=identity_id).first()
        if identity is None:
            return False
        others = [other for other in _usable(locked) if other.pk != identity_id]
        if not others and not locked.has_usable_password():
            raise LastLogIn(
                "This is the only way to log in to your account. Hint: set a password first."
            )
        identity.delete()
        _record(locked, now=now, disconnected=identity.provider)
    return True


def remove_unproven(account: Account, *, now: datetime) -> list[str]:
    """Remove the identities of an account whose address was never confirmed.

    Returns the ids of their providers, in order.

    Call this when the owner of the address uses a link that was mailed to it.  Another person
    may have created the account with a provider.  The address then counts as confirmed.
    """
    with transaction.atomic():
        locked = lock(account)
        address = EmailAddress.objects.filter(user=locked, email=locked.email)
        if address.filter(verified=True).exists():
            return []
        removed = SocialAccount.objects.filter(user=locked)
        providers = sorted({row.provider for row in removed})
        removed.delete()
        address.update(verified=True)
        audit.record(Event.EMAIL_CONFIRMED, now=now, subject=locked.email)
        if providers:
            _record(locked, now=now, disconnected=", ".join(providers))
    return providers


def _usable(account: Account) -> list[SocialAccount]:
    configured = {provider.id for provider in settings.PROJECT.login_providers}
    return [row for row in of_account(account) if row.provider in configured]


def _record(account: Account, *, now: datetime, **details: str) -> None:
    audit.record(Event.ACCOUNT_CHANGED, now=now, subject=account.email, details=details)
