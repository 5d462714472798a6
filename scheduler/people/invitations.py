"""Creates, checks, uses and revokes invitations to create an account.

While `ACCOUNT_CREATION` is `invitation`, creating an account requires the code of an invitation.
Only the hash of the code is stored, so the code is shown only when it is created.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime

from django.db import transaction
from django.db.models import F, Q, QuerySet

from scheduler.models import Invitation
from scheduler.people import audit
from scheduler.people.account_keys import AccountRefused
from scheduler.people.audit import Event

_MAX_USES, _MAX_NAME = 1_000_000, 100


class BadInvitation(AccountRefused):
    """The invitation code is missing or not valid. Hint: ask the project's staff for a code."""

    error_num = -209


def make(
    *, name: str = "", max_uses: int = 1, expire_at: datetime | None = None, now: datetime
) -> tuple[Invitation, str]:
    """Create an invitation; return its row and its code, which is stored only as a hash.

    Raises `AccountRefused` for an invalid name, number of uses or expiry.
    """
    if len(name) > _MAX_NAME:
        msg = f"The invitation's name has {len(name)} characters. Hint: give at most {_MAX_NAME}."
        raise AccountRefused(msg)
    if not 0 < max_uses <= _MAX_USES:
        msg = f"An invitation for {max_uses} accounts is not allowed. Hint: give 1 to {_MAX_USES}."
        raise AccountRefused(msg)
    if expire_at is not None and expire_at <= now:
        msg = "The expiry of the invitation is in the past. Hint: give a later time, or none."
        raise AccountRefused(msg)
    code = secrets.token_hex(10)
    with transaction.atomic():
        invitation = Invitation.objects.create(
            code_hash=_hash(code), name=name, max_uses=max_uses, expire_at=expire_at, created_at=now
        )
        audit.record(
            Event.INVITATION_CREATED,
            now=now,
            subject=f"invitation {invitation.pk}",
            details={
                "name": name,
                "max_uses": max_uses,
                "expire_at": None if expire_at is None else expire_at.isoformat(),
            },
        )
    return invitation, code


def valid(now: datetime) -> QuerySet[Invitation]:
    """Return the invitations that are not revoked, expired or used up."""
    return Invitation.objects.filter(
        Q(expire_at__isnull=True) | Q(expire_at__gt=now),
        revoked_at__isnull=True,
        uses__lt=F("max_uses"),
    )


def require_valid(code: str, *, now: datetime) -> None:
    """Raise `BadInvitation` if no valid invitation has this code."""
    if not valid(now).filter(code_hash=_hash(code)).exists():
        raise _refusal(code)


def use(code: str, *, now: datetime) -> None:
    """Count one use of the code, in the transaction that creates the account.

    Raises `BadInvitation`, even if `require_valid` accepted the code before: a concurrent request
    may have made the last use.
    """
    # UPDATE locks the row and evaluates the condition again on the locked row.
    if not valid(now).filter(code_hash=_hash(code)).update(uses=F("uses") + 1):
        raise _refusal(code)


def revoke(invitation_id: int, *, now: datetime) -> bool:
    """Revoke an invitation; return False if it is unknown or already revoked.

    Accounts that were created with the invitation remain.
    """
    live = Invitation.objects.filter(pk=invitation_id, revoked_at__isnull=True)
    with transaction.atomic():
        revoked = bool(live.update(revoked_at=now))
        if revoked:
            audit.record(Event.INVITATION_REVOKED, now=now, subject=f"invitation {invitation_id}")
    return revoked


def _refusal(code: str) -> BadInvitation:
    fault = "is unknown, expired or used up" if code else "is missing"
    msg = (
        f"The invitation code {fault}. Hint: ask the project's staff for a code, and create the "
        "account with it: volunteer attach URL --email E --create --name N --invitation CODE."
    )
    return BadInvitation(msg)


def _hash(code: str) -> str:
    return hashlib.sha256(code.strip().lower().encode("utf-8", "replace")).hexdigest()
