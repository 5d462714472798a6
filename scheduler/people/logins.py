"""Record log-ins to the admin in the audit log, by Django's signals.

The address is that of `audit.acting` at the edge.  Log-ins through the API and BOINC's web
RPCs send no signals: `people.throttle` records them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.auth.signals import user_logged_in, user_login_failed
from django.utils import timezone

from scheduler.models import Account
from scheduler.people import audit
from scheduler.people.audit import Event

__all__ = ["connect", "failed", "succeeded"]


def connect() -> None:
    """Connect to Django's signals; a second call has no effect."""
    user_logged_in.connect(_on_success, dispatch_uid="audit_login_succeeded")
    user_login_failed.connect(_on_failure, dispatch_uid="audit_login_failed")


def succeeded(account: Account, *, door: str, now: datetime) -> None:
    """Record that an account logged in at an interface (`door`), such as `admin` or `api`."""
    address = audit.current_actor().address
    with audit.acting(account_id=account.pk, name=account.email, address=address):
        audit.record(Event.LOGIN_SUCCEEDED, now=now, subject=account.email, details={"door": door})


def failed(email: str, *, door: str, now: datetime) -> None:
    """Record a log-in that was refused; `email` is what the caller claimed."""
    _refused(Event.LOGIN_FAILED, email, door, now)


def _refused(event: Event, email: str, door: str, now: datetime) -> None:
    claimed = audit.claimed_email(email)
    with audit.acting(name=claimed, address=audit.current_actor().address):
        audit.record(event, now=now, subject=claimed, details={"door": door})


# A signal handler is an edge, and reads the clock itself.


def _on_success(user: Account, **_signal: Any) -> None:
    succeeded(user, door="admin", now=timezone.now())  # noqa: TID251


def _on_failure(credentials: dict[str, Any], **_signal: Any) -> None:
    claimed = str(credentials.get("username") or "")
    failed(claimed, door="admin", now=timezone.now())  # noqa: TID251
