"""Reads: what the project came to, in totals that stay cheap on huge tables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from scheduler.models import App
from scheduler.queries import status
from scheduler.queries.counts import Count


@dataclass(frozen=True, slots=True)
class AppTotal:
    """What an app came to."""

    name: str
    title: str
    total_credit: float


@dataclass(frozen=True, slots=True)
class Totals:
    """What the project came to; workunits and results are those that are not purged yet."""

    read_at: datetime
    total_credit: float
    accounts: Count
    hosts: Count
    workunits: Count
    results: Count
    apps: tuple[AppTotal, ...]


def current(*, now: datetime) -> Totals:
    """Add up; the counts are those of the status page, at most as old."""
    live = status.current(now=now)
    apps = tuple(
        AppTotal(app.name, app.user_friendly_name or app.name, float(app.total_credit))
        for app in App.objects.only("name", "user_friendly_name", "total_credit").order_by("name")
    )
    return Totals(
        read_at=live.read_at,
        total_credit=sum(app.total_credit for app in apps),
        accounts=live.people["accounts"],
        hosts=live.people["hosts"],
        workunits=_sum(live.workunits),
        results=_sum(live.results),
        apps=apps,
    )


def _sum(counts: dict[str, Count]) -> Count:
    # `failed` are counted beside the stations at which they stand.
    stations = [one for name, one in counts.items() if name != "failed"]
    return Count(sum(one.value for one in stations), all(one.exact for one in stations))
