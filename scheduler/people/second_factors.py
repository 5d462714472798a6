"""Reads, checks and removes second factors: authenticator apps and security keys.

allauth stores the secrets and public keys, and checks the codes and signatures
(`web.accounts.second_factor`, `web.accounts.security_keys`); `throttle` limits the attempts.
Members of staff need a second factor for the administration if `staff_second_factor` is set.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from allauth.account.internal.flows.login import get_authentication_records
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models.signals import post_delete, post_save
from django.http import HttpRequest
from django.utils import timezone

from scheduler.models import Account
from scheduler.people import audit, throttle
from scheduler.people.account_keys import lock
from scheduler.people.audit import Event

#: The types of factors; recovery codes only replace a factor that was lost.
_FACTORS = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)
_IGNORED = str.maketrans("", "", string.punctuation + string.whitespace)


def has_one(account: Account) -> bool:
    """Return whether the account has an authenticator app or a security key.

    Recovery codes alone do not count.
    """
    return bool(Authenticator.objects.filter(user=account, type__in=_FACTORS).exists())


def emails_with_one() -> list[str]:
    """Return the addresses of the accounts that have a second factor, in order."""
    rows = Authenticator.objects.filter(type__in=_FACTORS)
    return sorted(set(rows.values_list("user__email", flat=True)))


def is_proven(request: HttpRequest) -> bool:
    """Return whether the session was opened, or confirmed later, with a second factor."""
    records = get_authentication_records(request, request.user)
    return any(record.get("method") == "mfa" for record in records)


def must_prove(request: HttpRequest) -> bool:
    """Return whether the visitor's account has a second factor that the session has not proven."""
    return not is_proven(request) and has_one(request.user)  # type: ignore[arg-type]  # logged in


def is_missing(account: Account) -> bool:
    """Return whether the account is staff without the second factor that the project requires."""
    is_staff = account.is_staff or account.is_superuser
    return is_staff and settings.PROJECT.staff_second_factor and not has_one(account)


@contextmanager
def factor_attempt(*, account: Account, address: str, now: datetime) -> Iterator[None]:
    """Throttle the check of a factor in the block, which raises `ValidationError` if it fails.

    Raises `TooManyAttempts`.
    """
    attempt = throttle.charge_code(account=account, address=address, now=now)
    try:
        yield
    except (ValidationError, throttle.UsedCode):
        throttle.failed(attempt)
        raise
    throttle.refund(attempt)


@contextmanager
def code_attempt(*, account: Account, code: str, address: str, now: datetime) -> Iterator[None]:
    """Throttle the check of a code in the block, which raises `ValidationError` for a wrong code.

    Raises `TooManyAttempts`, and `UsedCode` for the second use of a correct code.
    """
    with factor_attempt(account=account, address=address, now=now):
        yield
        # Like allauth, which ignores the spaces and signs between the digits of a code.
        typed = code.translate(_IGNORED).lower()
        throttle.use_code(account=account, code=typed, now=now)


def remove(account: Account) -> bool:
    """Remove the account's second factors and recovery codes; return False without any.

    This is for the owner of a lost phone or key without recovery codes, whom the operator has
    identified.
    """
    with transaction.atomic():
        locked = lock(account)
        return bool(Authenticator.objects.filter(user=locked).delete()[0])


def connect() -> None:
    """Connect the receivers that write audit entries; a second call has no effect."""
    post_save.connect(_on_saved, sender=Authenticator, dispatch_uid="audit_factor_added")
    post_delete.connect(_on_deleted, sender=Authenticator, dispatch_uid="audit_factor_removed")


def _on_saved(instance: Authenticator, *, created: bool, **_signal: Any) -> None:
    if created:
        _record(Event.FACTOR_ADDED, instance)


def _on_deleted(instance: Authenticator, **_signal: Any) -> None:
    _record(Event.FACTOR_REMOVED, instance)


def _record(event: Event, authenticator: Authenticator) -> None:
    """Write an entry in the transaction of the change; without another actor, the owner made it."""
    owner = authenticator.user
    if not audit.current_actor().name:
        audit.identify(owner)
    now = timezone.now()  # noqa: TID251  a signal handler is an entry point
    audit.record(event, now=now, subject=owner.email, details={"type": authenticator.type})
