"""Deny a host, with a reason, allow it again, limit what it may hold."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from scheduler.models import Host
from scheduler.people import audit
from scheduler.people.audit import Event

_MAX_REASON = 200


class UnknownHost(LookupError):
    """There is no such host. Hint: `manage.py host list` has the newest ones."""


class BadLimit(ValueError):
    """A host cannot be limited so. Hint: give 1 or more, or nothing for no limit of its own."""


@transaction.atomic
def deny(host_id: int, *, reason: str, now: datetime) -> bool:
    """Turn a host away from now on, with its reason; whether it was allowed before.

    What it holds runs into its deadlines: a denied host cannot report either (BOINC's rule).
    """
    changed = Host.objects.filter(pk=host_id, denied=False).update(denied=True)
    found = Host.objects.filter(pk=host_id).update(deny_reason=reason[:_MAX_REASON])
    if not found:
        raise _unknown(host_id)
    _record(host_id, {"denied": True, "reason": reason[:_MAX_REASON]}, now)
    return bool(changed)


@transaction.atomic
def allow(host_id: int, *, now: datetime) -> bool:
    """Serve a host again; whether it was denied before."""
    changed = Host.objects.filter(pk=host_id, denied=True).update(denied=False, deny_reason="")
    if not changed and not Host.objects.filter(pk=host_id).exists():
        raise _unknown(host_id)
    if changed:
        _record(host_id, {"denied": False}, now)
    return bool(changed)


@transaction.atomic
def limit(host_id: int, max_in_progress: int | None, *, now: datetime) -> None:
    """Let a host hold so many results at most, whatever its CPUs; None takes the limit away."""
    if max_in_progress is not None and max_in_progress < 1:
        msg = f"{max_in_progress} is no limit. Hint: give 1 or more; `host deny` sends nothing."
        raise BadLimit(msg)
    if not Host.objects.filter(pk=host_id).update(max_in_progress=max_in_progress):
        raise _unknown(host_id)
    _record(host_id, {"max_in_progress": max_in_progress}, now)


def _record(host_id: int, details: Mapping[str, Any], now: datetime) -> None:
    audit.record(Event.HOST_CHANGED, now=now, subject=f"host {host_id}", details=details)


def _unknown(host_id: int) -> UnknownHost:
    return UnknownHost(f"There is no host {host_id}. Hint: `manage.py host list` names them.")
