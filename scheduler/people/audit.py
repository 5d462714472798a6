"""Write the security audit log.

An edge (a view, a command, the admin) sets the actor once, by `acting`; the
operations below it call `record` in the transaction of the change, so that an entry and its change
are committed together or not at all.  Passwords, keys and tokens never appear in an entry.

Every web request begins with an actor that has an address only (`project.middleware`); an edge
that authenticates the caller adds the account by `identify`.  Each entry is also logged, once it is
committed, by the logger `manyhands.audit`, so that it can be kept on another machine.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, date, datetime
from ipaddress import ip_address
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from scheduler.models import Account, AuditEntry

Event = AuditEntry.Event
log = logging.getLogger("manyhands.audit")
_MAX_TEXT = 254
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")


@dataclass(frozen=True, slots=True)
class Actor:
    """The account or name that acts, and its address."""

    account_id: int | None = None
    name: str = ""
    address: str | None = None


_actor: ContextVar[Actor | None] = ContextVar("audit_actor", default=None)
_NO_ACTOR = Actor()


@contextmanager
def acting(
    *, account_id: int | None = None, name: str = "", address: str | None = None
) -> Iterator[None]:
    """Attribute the entries recorded inside the block to this account, name and address."""
    token = _actor.set(Actor(account_id, name, address))
    try:
        yield
    finally:
        _actor.reset(token)


def identify(account: Account) -> None:
    """Attribute the entries from here to the end of the `acting` block to an account.

    The address stays.  Has no effect outside `acting`, where no block would end it.
    """
    if (actor := _actor.get()) is not None:
        _actor.set(Actor(account.pk, account.email, actor.address))


def current_actor() -> Actor:
    """Return the current actor, or an empty `Actor` outside `acting`."""
    return _actor.get() or _NO_ACTOR


def record(
    event: AuditEntry.Event,
    *,
    now: datetime | Now,
    subject: str = "",
    details: Mapping[str, Any] | None = None,
) -> None:
    """Write one entry, attributed to the current actor.

    `subject` and the actor's name are shortened to 254 characters, and NUL is removed from them.
    Text that is not an IP address, such as the name of a Unix socket, is left out.
    """
    actor = current_actor()
    entry = AuditEntry.objects.create(
        at=now,
        event=event,
        account_id=actor.account_id,
        actor=_text(actor.name),
        address=valid_address(actor.address),
        subject=_text(subject),
        # Values that JSON cannot represent, such as decimals, are stored as text.
        details=json.loads(json.dumps(dict(details or {}), default=str)),
    )
    if not isinstance(now, datetime):  # the database's clock: `Now()`
        entry.refresh_from_db(fields=["at"])
    transaction.on_commit(lambda: _log(entry), robust=True)


#: Uses that this process has recorded or found recorded (day, event, subject, account, address), so
#: that only the first one costs statements.  Emptied when it is full; the next use is read again.
_recorded_uses: set[tuple[date, str, str, int | None, str | None]] = set()
_MAX_RECORDED_USES = 10_000


def record_daily(
    event: AuditEntry.Event,
    *,
    now: datetime,
    subject: str,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Write an entry unless this day (UTC) has one with the same subject, account and address.

    For events that every request causes, such as the use of a token.  Concurrent first uses in
    several processes can each write one.
    """
    actor, today = current_actor(), now.astimezone(UTC)
    address = valid_address(actor.address)
    use = (today.date(), str(event), subject, actor.account_id, address)
    if use in _recorded_uses:
        return
    recorded = AuditEntry.objects.filter(
        account_id=actor.account_id,
        at__gte=today.replace(hour=0, minute=0, second=0, microsecond=0),
        event=event,
        subject=_text(subject),
        address=address,
    )
    if not recorded.exists():
        record(event, now=now, subject=subject, details=details)
    if len(_recorded_uses) >= _MAX_RECORDED_USES:
        _recorded_uses.clear()
    _recorded_uses.add(use)


def _log(entry: AuditEntry) -> None:
    fields = {
        "entry": entry.pk,
        "what": str(entry.event),
        "happened_at": entry.at.isoformat(),
        "account_id": entry.account_id,
        "actor": entry.actor,
        "address": entry.address,
        "subject": entry.subject,
        "details": entry.details,
    }
    log.info("audit_entry", extra=fields)


def claimed_email(text: str) -> str:
    """Return the e-mail address that a caller sent, or "" if it does not look like an address.

    People type their password into the wrong field, and an entry must not keep it.
    """
    claimed = text.strip().lower()
    return claimed if _EMAIL.fullmatch(claimed) else ""


def valid_address(text: str | None) -> str | None:
    """Return an IP address in its stored form, or None for other text."""
    try:
        return str(ip_address((text or "").partition("%")[0]))
    except ValueError:
        return None


def _text(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:_MAX_TEXT]
