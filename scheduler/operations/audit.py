"""Write the security audit log [operations].

An edge (a view, a command, the admin) states once who acts and from where, by `acting`; the
operations below it call `record` in the transaction of the change, so that an entry and its change
are committed together or not at all.  Passwords, keys and tokens never appear in an entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduler.models import AuditEntry

Event = AuditEntry.Event
_MAX_TEXT = 254


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, and from where."""

    account_id: int | None = None
    name: str = ""
    address: str | None = None


_actor: ContextVar[Actor | None] = ContextVar("audit_actor", default=None)
_NO_ACTOR = Actor()


@contextmanager
def acting(
    *, account_id: int | None = None, name: str = "", address: str | None = None
) -> Iterator[None]:
    """Attribute what is recorded inside the block to this account, name and address."""
    token = _actor.set(Actor(account_id, name, address or None))
    try:
        yield
    finally:
        _actor.reset(token)


def current_actor() -> Actor:
    """Return who acts, or an empty `Actor` outside `acting`."""
    return _actor.get() or _NO_ACTOR


def record(
    event: AuditEntry.Event,
    *,
    now: datetime,
    subject: str = "",
    details: Mapping[str, Any] | None = None,
) -> None:
    """Write one entry, attributed to the current actor.

    `subject` and the actor's name are shortened to 254 characters, and NUL is removed from them.
    """
    actor = current_actor()
    AuditEntry.objects.create(
        at=now,
        event=event,
        account_id=actor.account_id,
        actor=_text(actor.name),
        address=actor.address,
        subject=_text(subject),
        details=dict(details or {}),
    )


def _text(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:_MAX_TEXT]
