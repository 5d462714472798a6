"""Deny a host, with a reason, allow it again, limit what it may hold [operations]."""

from __future__ import annotations

from scheduler.models import Host

_MAX_REASON = 200


class UnknownHost(LookupError):
    """There is no such host. Hint: `manage.py host list` has the newest ones."""


class BadLimit(ValueError):
    """A host cannot be limited so. Hint: give 1 or more, or nothing for no limit of its own."""


def deny(host_id: int, *, reason: str) -> bool:
    """Turn a host away from now on, with its reason; whether it was allowed before.

    What it holds runs into its deadlines: a denied host cannot report either (BOINC's rule).
    """
    changed = Host.objects.filter(pk=host_id, denied=False).update(denied=True)
    found = Host.objects.filter(pk=host_id).update(deny_reason=reason[:_MAX_REASON])
    if not found:
        raise _unknown(host_id)
    return bool(changed)


def allow(host_id: int) -> bool:
    """Serve a host again; whether it was denied before."""
    changed = Host.objects.filter(pk=host_id, denied=True).update(denied=False, deny_reason="")
    if not changed and not Host.objects.filter(pk=host_id).exists():
        raise _unknown(host_id)
    return bool(changed)


def limit(host_id: int, max_in_progress: int | None) -> None:
    """Let a host hold so many results at most, whatever its CPUs; None takes the limit away."""
    if max_in_progress is not None and max_in_progress < 1:
        msg = f"{max_in_progress} is no limit. Hint: give 1 or more; `host deny` sends nothing."
        raise BadLimit(msg)
    if not Host.objects.filter(pk=host_id).update(max_in_progress=max_in_progress):
        raise _unknown(host_id)


def _unknown(host_id: int) -> UnknownHost:
    return UnknownHost(f"There is no host {host_id}. Hint: `manage.py host list` names them.")
