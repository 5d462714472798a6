"""Lists outages, newest first."""

from __future__ import annotations

from scheduler.models import Outage

#: The number of rows shown by default.
DEFAULT_LIMIT = 50


def recent(limit: int = DEFAULT_LIMIT) -> list[Outage]:
    """Return the last outages, newest first."""
    return list(Outage.objects.order_by("-began_at", "-id")[:limit])


def find(outage_id: int) -> Outage | None:
    """Return an outage by its id, or None."""
    return Outage.objects.filter(pk=outage_id).first()
