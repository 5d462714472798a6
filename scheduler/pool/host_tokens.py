"""Enrolls hosts in the trusted pool, and recognizes their tokens."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime

from django.db import transaction
from django.db.models import Q, QuerySet

from scheduler.hosts.denials import UnknownHost
from scheduler.models import Host, HostToken
from scheduler.people import audit
from scheduler.people.audit import Event
from scheduler.pool.facts import PoolHost

#: Prefix of every host token; secret scanners search for it.
PREFIX = "mh_host_"
#: Maximum length of a token; a longer text is rejected without hashing.
_MAX_LENGTH = 200


class NotEnrolled(ValueError):
    """The host cannot be enrolled. Hint: see the message."""


def enroll(
    host_id: int, *, expire_at: datetime | None = None, now: datetime
) -> tuple[HostToken, str]:
    """Create a token for a host; return its row and its text, which is not stored.

    Earlier tokens of the host stay valid, so that a token can be replaced without a pause.  Raises
    `UnknownHost`, and `NotEnrolled` for a denied or merged host and an expiry in the past.
    """
    if expire_at is not None and expire_at <= now:
        raise NotEnrolled("The expiry of the token is past. Hint: give a later time, or none.")
    with transaction.atomic():
        host = Host.objects.select_for_update(no_key=True).filter(pk=host_id).first()
        if host is None:
            msg = f"There is no host {host_id}. Hint: `manage.py host list` lists hosts."
            raise UnknownHost(msg)
        if host.is_deleted:
            raise NotEnrolled(f"Host {host_id} was deleted by its owner.")
        if host.merged_into_id is not None:
            msg = f"Host {host_id} was merged. Hint: enroll host {host.merged_into_id}."
            raise NotEnrolled(msg)
        if host.denied:
            msg = f"Host {host_id} is denied. Hint: `manage.py host allow {host_id}` first."
            raise NotEnrolled(msg)
        text = PREFIX + secrets.token_urlsafe(32)
        token = HostToken.objects.create(
            host=host, token_hash=_hash(text), created_at=now, expire_at=expire_at
        )
        details = {
            "pool_token": token.pk,
            "expire_at": None if expire_at is None else expire_at.isoformat(),
        }
        audit.record(Event.TOKEN_CREATED, now=now, subject=f"host {host_id}", details=details)
    return token, text


def withdraw(host_id: int, *, now: datetime) -> int:
    """Revoke all tokens of a host; return their number.  Its results in progress continue."""
    with transaction.atomic():
        count = live(now=now).filter(host_id=host_id).update(revoked_at=now)
        if count:
            details = {"pool_tokens": count}
            audit.record(Event.TOKEN_REVOKED, now=now, subject=f"host {host_id}", details=details)
    return count


def live(*, now: datetime) -> QuerySet[HostToken]:
    """Return the tokens that are neither revoked nor expired."""
    return HostToken.objects.filter(
        Q(expire_at__isnull=True) | Q(expire_at__gt=now), revoked_at__isnull=True
    )


def pool_exists(*, now: datetime) -> bool:
    """Return whether a host is enrolled."""
    return live(now=now).exists()


def recognize(text: str, *, now: datetime) -> PoolHost | None:
    """Return the host with this token, or None.

    A revoked or expired token is invalid, as is the token of a denied or merged host, or of a host
    of an inactive account.  The use is recorded in the audit log once per day and address.
    """
    if not text.startswith(PREFIX) or not text.isascii() or len(text) > _MAX_LENGTH:
        return None
    token = (
        live(now=now)
        .filter(
            token_hash=_hash(text),
            host__denied=False,
            host__merged_into=None,
            host__account__is_active=True,
        )
        .select_related("host__account")
        .first()
    )
    if token is None:
        return None
    audit.identify(token.host.account)
    if token.last_used_on != now.date():
        HostToken.objects.filter(pk=token.pk).update(last_used_on=now.date())
    audit.record_daily(
        Event.TOKEN_USED, now=now, subject=f"host {token.host_id}", details={"pool": token.pk}
    )
    return PoolHost(token.pk, token.host_id, token.host.account_id)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
