"""Records log-ins to the site, and failed log-ins, in the audit log.

The receivers of Django's signals write the entries.  The address of an entry comes from the
enclosing `audit.acting` block.  Log-ins by the API and by BOINC's web RPCs send no signals;
`people.throttle` records those log-ins.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.signals import user_logged_in, user_login_failed
from django.utils import timezone

from scheduler.models import Account
from scheduler.people import audit
from scheduler.people.audit import Event


def connect() -> None:
    """Connect the receivers to Django's signals; a second call has no effect."""
    user_logged_in.connect(_on_success, dispatch_uid="audit_login_succeeded")
    user_login_failed.connect(_on_failure, dispatch_uid="audit_login_failed")


def _on_success(user: Account, **_signal: Any) -> None:
    _record(Event.LOGIN_SUCCEEDED, user.email, user.pk)


def _on_failure(credentials: dict[str, Any], **_signal: Any) -> None:
    _record(
        Event.LOGIN_FAILED,
        audit.claimed_email(str(credentials.get("email") or credentials.get("username") or "")),
        None,
    )


def _record(event: Event, email: str, account_id: int | None) -> None:
    now = timezone.now()  # noqa: TID251  a signal handler is an entry point
    address = audit.current_actor().address
    with audit.acting(account_id=account_id, name=email, address=address):
        audit.record(event, now=now, subject=email, details={"door": "web"})
