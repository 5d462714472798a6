"""Reads the outages, newest first."""

from __future__ import annotations

from scheduler.models import Outage

#: As many as a person reads.
SHOWN = 50


def recent(limit: int = SHOWN) -> list[Outage]:
    """The last outages, newest first."""
    return list(Outage.objects.order_by("-began_at", "-id")[:limit])


def find(outage_id: int) -> Outage | None:
    """An outage by its number."""
    return Outage.objects.filter(pk=outage_id).first()
