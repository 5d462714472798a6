"""Clears what makes the server refuse work to a host until a later time.

Theory of operation.  The server never refuses a host because it asks too soon: `request_delay` in a
reply is a rule for the client, which keeps it, and a volunteer can end it with the button *Update*.
The server's own waits are the daily quotas of app versions on a host (`dispatch.rules.trust`): the
number of results that were sent today, and a limit that errors have reduced.  `clear` sets both
back, so that the next request is answered as that of a host without a history of errors.  It keeps
limits that valid results have raised, and the number of valid results in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction

from scheduler import sql
from scheduler.models import Host
from scheduler.people import audit
from scheduler.people.audit import Event

#: The maximum number of ids in one audit entry, so that it stays readable.
_HOSTS_PER_ENTRY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """The changes of `clear`: hosts with a used quota, results sent today, reduced quotas.

    `denied` is the number of denied hosts, which get no work before they are admitted.
    """

    hosts: int
    results_today: int
    reduced_quotas: int
    denied: int


def read(host_ids: Sequence[int], *, now: datetime) -> Waits:
    """Return what `clear` would change, by two statements."""
    row = sql.fetch_one("hosts/read_waits", _params(host_ids, now)) or {}
    return Waits(**row, denied=Host.objects.filter(pk__in=host_ids, denied=True).count())


def clear(host_ids: Sequence[int], *, now: datetime) -> list[int]:
    """Clear the waits of hosts; return the ids of changed hosts, and write audit entries."""
    with transaction.atomic():
        hosts = Host.objects.filter(pk__in=host_ids).order_by("pk")
        list(hosts.select_for_update(no_key=True, of=("self",)).values_list("pk"))
        # The next statement sees the records of all RPCs that were committed before the locks.
        rows = sql.fetch_rows("hosts/clear_waits", _params(host_ids, now))
        changed = sorted({row[0] for row in rows})
        for first in range(0, len(changed), _HOSTS_PER_ENTRY):
            ids = changed[first : first + _HOSTS_PER_ENTRY]
            subject = f"{len(ids)} hosts" if len(ids) > 1 else f"host {ids[0]}"
            details = {"waits": "cleared", "hosts": ids}
            audit.record(Event.HOST_CHANGED, now=now, subject=subject, details=details)
    return changed


def _params(host_ids: Sequence[int], now: datetime) -> dict[str, Any]:
    return {
        "host_ids": list(host_ids),
        "today": now.date(),
        "daily_quota": settings.PROJECT.daily_quota,
    }
