"""Writes the security audit log.

An entry point (a view, a command, the admin) sets the actor with `acting`.  The operations that it
calls write an entry with `record`, in the transaction of the change.  An entry contains no
password, key or token.

`project.middleware` sets an actor with only an address for each web request.  An entry point that
authenticates the caller adds the account with `identify`.  After the commit, the logger
`manyhands.audit` logs each entry, so that a log collector can store it on another machine.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
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
    """The actor of audit entries: its account id, its name and its network address."""

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
    """Attribute later entries of the enclosing `acting` block to an account.

    The actor keeps its address.  The call has no effect outside an `acting` block.
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

    NUL characters are removed from `subject` and the actor's name, and both are shortened to 254
    characters.  An address that is not an IP address, such as the name of a Unix socket, is stored
    as NULL.
    """
    entry = _entry(event, now, subject, details)
    entry.save(force_insert=True)
    if not isinstance(now, datetime):  # the database's clock: `Now()`
        entry.refresh_from_db(fields=["at"])
    transaction.on_commit(lambda: _log(entry), robust=True)


def record_all(
    event: AuditEntry.Event,
    *,
    now: datetime,
    subjects: Iterable[str],
    details: Mapping[str, Any] | None = None,
) -> None:
    """Write an entry like those of `record` for each subject, in one statement."""
    entries = [_entry(event, now, subject, details) for subject in subjects]
    AuditEntry.objects.bulk_create(entries)
    for entry in entries:
        transaction.on_commit(partial(_log, entry), robust=True)


def _entry(
    event: AuditEntry.Event,
    now: datetime | Now,
    subject: str,
    details: Mapping[str, Any] | None,
) -> AuditEntry:
    actor = current_actor()
    return AuditEntry(
        at=now,
        event=event,
        account_id=actor.account_id,
        actor=_text(actor.name),
        address=valid_address(actor.address),
        subject=_text(subject),
        # Values that JSON cannot represent, such as decimals, are stored as text.
        details=json.loads(json.dumps(dict(details or {}), default=str)),
    )


#: Cache of entries that exist in the database: (day, event, subject, account, address).  A repeated
#: use needs no statement.  The cache is cleared when it is full.
_recorded_uses: set[tuple[date, str, str, int | None, str | None]] = set()
_MAX_RECORDED_USES = 10_000


def record_daily(
    event: AuditEntry.Event,
    *,
    now: datetime,
    subject: str,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Write an entry once per day (UTC), event, subject, account and address.

    Use this for an event that every request causes, such as the use of a token.  Concurrent calls
    in several processes can write duplicates.
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

    The text may be a password typed into the wrong field, which must not be stored.
    """
    claimed = text.strip().lower()
    return claimed if _EMAIL.fullmatch(claimed) else ""


def valid_address(text: str | None) -> str | None:
    """Return an IP address in canonical form, without a zone, or None for any other text."""
    try:
        return str(ip_address((text or "").partition("%")[0]))
    except ValueError:
        return None


def _text(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:_MAX_TEXT]
