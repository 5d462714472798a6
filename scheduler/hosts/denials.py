"""Denies and allows hosts, and limits their results in progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from scheduler import sql
from scheduler.models import Host
from scheduler.people import audit
from scheduler.people.audit import Event

#: The maximum length of a reason.
MAX_REASON = 200
#: The maximum number of ids in one audit entry, so that it stays readable.
_HOSTS_PER_ENTRY = 100


class UnknownHost(LookupError):
    """There is no host with this id.  Hint: `manage.py host list` shows the newest hosts."""


class BadLimit(ValueError):
    """The limit is less than 1.  Hint: pass 1 or more, or None for no limit."""


@transaction.atomic
def deny(host_id: int, *, reason: str, now: datetime) -> bool:
    """Deny a host and store the reason; return True if the host was not denied before.

    The host's results in progress time out, because a denied host cannot report them (BOINC's
    rule).  The reason is cut to 200 characters.
    Raises `UnknownHost`.
    """
    changed = Host.objects.filter(pk=host_id, denied=False).update(denied=True)
    count = Host.objects.filter(pk=host_id).update(deny_reason=reason[:MAX_REASON])
    if not count:
        raise _unknown(host_id)
    _record(host_id, {"denied": True, "reason": reason[:MAX_REASON]}, now)
    return bool(changed)


@transaction.atomic
def allow(host_id: int, *, now: datetime) -> bool:
    """Allow a host again; return True if the host was denied before.  Raises `UnknownHost`."""
    changed = Host.objects.filter(pk=host_id, denied=True).update(denied=False, deny_reason="")
    if not changed and not Host.objects.filter(pk=host_id).exists():
        raise _unknown(host_id)
    if changed:
        _record(host_id, {"denied": False}, now)
    return bool(changed)


@transaction.atomic
def change_all(hosts: QuerySet[Host], *, denied: bool, reason: str = "", now: datetime) -> int:
    """Deny or allow hosts; return the number of changed hosts.

    The reason is in the audit log, and that of a denial also in the row of each host.
    """
    others = hosts.filter(denied=not denied).order_by("pk")
    ids = [host.pk for host in others.select_for_update(no_key=True, of=("self",))]
    for first in range(0, len(ids), _HOSTS_PER_ENTRY):
        some = ids[first : first + _HOSTS_PER_ENTRY]
        subject = f"{len(some)} hosts" if len(some) > 1 else f"host {some[0]}"
        details = {"denied": denied, "hosts": some, "reason": reason[:MAX_REASON]}
        audit.record(Event.HOST_CHANGED, now=now, subject=subject, details=details)
    rows = Host.objects.filter(pk__in=ids)
    return rows.update(denied=denied, deny_reason=reason[:MAX_REASON] if denied else "")


def held_results(host_ids: Sequence[int]) -> int:
    """Return the number of results in progress of hosts.

    A denied host cannot report them; an admitted host can until their deadlines.
    """
    row = sql.fetch_one("hosts/count_held_results", {"host_ids": list(host_ids)}) or {}
    return int(row["results"])


@transaction.atomic
def limit(host_id: int, max_in_progress: int | None, *, now: datetime) -> None:
    """Set a host's maximum number of results in progress; None removes the limit.

    With 0, the host gets no further results, but its reports are accepted.  The limit does not
    depend on the number of CPUs.  Raises `BadLimit`, `UnknownHost`.
    """
    if max_in_progress is not None and max_in_progress < 0:
        raise BadLimit(
            f"{max_in_progress} is not a valid limit. Hint: give 0 or more; 0 stops new work."
        )
    if not Host.objects.filter(pk=host_id).update(max_in_progress=max_in_progress):
        raise _unknown(host_id)
    _record(host_id, {"max_in_progress": max_in_progress}, now)


def _record(host_id: int, details: Mapping[str, Any], now: datetime) -> None:
    audit.record(Event.HOST_CHANGED, now=now, subject=f"host {host_id}", details=details)


def _unknown(host_id: int) -> UnknownHost:
    return UnknownHost(f"There is no host {host_id}. Hint: `manage.py host list` lists hosts.")
