"""Reads: how the project is doing, in numbers that stay cheap on huge tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.core.cache import cache
from django.db.models import Min, QuerySet

from scheduler import storage
from scheduler.lifecycle import ServerState
from scheduler.models import (
    Account,
    App,
    AppVersion,
    CreditEntry,
    Heartbeat,
    Host,
    Result,
    TrickleUp,
    Workunit,
)
from scheduler.queries import counts
from scheduler.queries.counts import Count

#: How long one reading serves everybody who asks.
KEEP = timedelta(seconds=2)
#: How many of the newest valid results are shown.
LATEST = 8
#: The longest interval of the housekeeper's chores is a day.
LATE_CHORE = timedelta(days=2)

_CACHE_KEY = "manyhands.status"


@dataclass(frozen=True, slots=True)
class Station:
    """What one daemon has before it; `behind` is how long the oldest of it has been waiting.

    `silent` is how long ago it was last seen alive, None if it never was.
    """

    daemon: str
    does: str
    waiting: Count
    behind: timedelta | None = None
    silent: timedelta | None = None


@dataclass(frozen=True, slots=True)
class VersionLine:
    """The newest version of an app for one platform and plan class."""

    platform: str
    version: str
    plan_class: str


@dataclass(frozen=True, slots=True)
class AppLine:
    """An app that hands out work, and the computers that it runs on."""

    name: str
    title: str
    versions: tuple[VersionLine, ...]


@dataclass(frozen=True, slots=True)
class ValidLine:
    """A result that was found valid: app, volunteer by chosen name, credit, when."""

    app: str
    volunteer: str
    credit: float
    granted_at: datetime


@dataclass(frozen=True, slots=True)
class Status:
    """Everything that the status page says."""

    read_at: datetime
    workunits: dict[str, Count]
    results: dict[str, Count]
    outcomes: dict[str, Count]
    people: dict[str, Count]
    stations: tuple[Station, ...]
    apps: tuple[AppLine, ...]
    latest: tuple[ValidLine, ...]


def words(name: str) -> str:
    """How people read a count's name.

    >>> words("waiting_for_validation")
    'waiting for validation'
    """
    return name.replace("_", " ")


def current(*, now: datetime) -> Status:
    """Return the status, at most `KEEP` old: any number of readers cost one reading."""
    found: Status | None = cache.get(_CACHE_KEY)
    if found is None:
        found = read(now=now)
        cache.set(_CACHE_KEY, found, KEEP.total_seconds())
    return found


def forget() -> None:
    """Drop the kept reading, so that the next reader sees what stands in the tables now."""
    cache.delete(_CACHE_KEY)


def read(*, now: datetime) -> Status:
    """Read the status from the tables."""
    sizes = counts.Sizes.read()
    workunits = counts.workunits(sizes)
    results, outcomes = counts.results(sizes)
    return Status(
        read_at=now,
        workunits=workunits,
        results=results,
        outcomes=outcomes,
        people={
            "accounts": counts.rows(Account, sizes),
            "hosts": counts.rows(Host, sizes),
        },
        stations=_with_lives(_stations(workunits, now), now),
        apps=_apps(),
        latest=_latest(),
    )


# Daemons


def _stations(workunits: Mapping[str, Count], now: datetime) -> tuple[Station, ...]:
    """What lies before each daemon, in the order in which a workunit meets them."""
    due = Workunit.objects.filter(transition_at__lte=now)
    overdue = Result.objects.filter(server_state=ServerState.IN_PROGRESS, report_deadline__lte=now)
    return (
        Station(
            "transitioner",
            "decides what each workunit needs next",
            counts.capped(due),
            _age(due.aggregate(at=Min("transition_at"))["at"], now),
        ),
        Station(
            "timeout_checker",
            "gives up results whose deadline has passed",
            counts.capped(overdue),
            _age(overdue.aggregate(at=Min("report_deadline"))["at"], now),
        ),
        Station("validator", "compares results", workunits["waiting_for_validation"]),
        Station(
            "assimilator", "hands answers to the science", workunits["waiting_for_assimilation"]
        ),
        Station(
            "trickle_handler",
            "takes messages of running results",
            counts.capped(TrickleUp.objects.filter(handled_at=None)),
        ),
        Station("file_deleter", "deletes files nobody needs", workunits["waiting_for_deletion"]),
        Station("purger", "archives finished workunits", workunits["finished"]),
        Station("housekeeper", "does daily chores", counts.capped(_late_chores(now))),
    )


def _late_chores(now: datetime) -> QuerySet[Heartbeat]:
    """Chores that were not done for longer than any of their intervals."""
    return Heartbeat.objects.filter(name__startswith="chore ", seen_at__lt=now - LATE_CHORE)


def _with_lives(stations: tuple[Station, ...], now: datetime) -> tuple[Station, ...]:
    seen = storage.signs_of_life()
    return tuple(
        replace(station, silent=_age(seen.get(station.daemon), now)) for station in stations
    )


def _age(at: datetime | None, now: datetime) -> timedelta | None:
    return None if at is None else now - at


# Apps and what they found


def _apps() -> tuple[AppLine, ...]:
    newest: dict[int, dict[tuple[str, str], VersionLine]] = {}
    versions = AppVersion.objects.filter(deprecated=False).order_by("version_num")
    fields = ("app_id", "platform__name", "plan_class", "version_num")
    for app_id, platform, plan_class, number in versions.values_list(*fields):
        line = VersionLine(platform, f"{number / 100:.2f}", plan_class)
        newest.setdefault(app_id, {})[platform, plan_class] = line
    return tuple(
        AppLine(
            name=app.name,
            title=app.user_friendly_name or app.name,
            versions=tuple(line for _, line in sorted(newest.get(app.pk, {}).items())),
        )
        for app in App.objects.filter(deprecated=False).order_by("name")
    )


def _latest() -> tuple[ValidLine, ...]:
    """The newest grants: they outlive the workunits, and are found by the primary key alone."""
    entries = CreditEntry.objects.select_related("app", "account").order_by("-id")[:LATEST]
    return tuple(
        ValidLine(
            app=entry.app.user_friendly_name or entry.app.name,
            # Never the e-mail address: the page is public.
            volunteer=entry.account.name or "a volunteer",
            credit=float(entry.amount),
            granted_at=entry.granted_at,
        )
        for entry in entries
    )
