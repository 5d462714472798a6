"""Reads the totals of the project, with cached counts of large tables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from scheduler.health import status
from scheduler.health.counts import Count, Counts, Resources
from scheduler.models import App


@dataclass(frozen=True, slots=True)
class AppTotal:
    """Totals of an app, including purged work except in `resources`."""

    name: str
    title: str
    total_credit: float
    workunits_done: int
    workunits_failed: int
    resources: Resources


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of the project, including purged work except in `resources`."""

    read_at: datetime
    total_credit: float
    accounts: Count
    hosts: Count
    workunits: Count
    results: Count
    apps: tuple[AppTotal, ...]
    resources: Resources


def current(*, now: datetime) -> Totals:
    """Return the totals, with the counts of the cached status (`status.current`)."""
    live = status.current(now=now)
    apps = tuple(
        _app_total(app, live.counted)
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
        resources=sum(live.counted.resources.values(), start=Resources()),
    )


def _app_total(app: App, counts: Counts) -> AppTotal:
    counted = counts.apps.get(app.name)
    return AppTotal(
        name=app.name,
        title=app.user_friendly_name or app.name,
        total_credit=float(app.total_credit),
        # `counted` is None if the app was created after the last count.
        workunits_done=counted.done if counted else 0,
        workunits_failed=counted.failed if counted else 0,
        resources=counts.resources.get(app.name, Resources()),
    )


def _sum(counts: dict[str, Count]) -> Count:
    # Failed workunits are also counted at their stations.
    stations = [count for name, count in counts.items() if name != "failed"]
    return Count(sum(count.value for count in stations), all(count.exact for count in stations))
