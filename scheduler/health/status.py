"""Reads: how the project is doing, in numbers that stay cheap on huge tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.core.cache import cache

from scheduler import storage
from scheduler.health import counts, standstill
from scheduler.health.counts import Count, Counts
from scheduler.health.rules.standstill_causes import Wait
from scheduler.models import App, AppVersion, CreditEntry

#: How long one reading serves everybody who asks.
KEEP = timedelta(seconds=2)
#: How many of the newest valid results are shown.
LATEST = 8

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
    """Everything that the status page shows; the counts are those of `read_at`."""

    read_at: datetime
    workunits: dict[str, Count]
    results: dict[str, Count]
    outcomes: dict[str, Count]
    people: dict[str, Count]
    stations: tuple[Station, ...]
    counted: Counts
    waits: tuple[Wait, ...]
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
    """Drop the kept readings, so that the next reader sees what stands in the tables now."""
    forget_own()
    counts.forget()


def forget_own() -> None:
    """Drop the reading that this process keeps."""
    cache.delete(_CACHE_KEY)


def read(*, now: datetime) -> Status:
    """Read the status from the tables; large ones as they were counted last."""
    counted = counts.current(now=now)
    exact = now - counted.read_at <= KEEP
    return Status(
        read_at=counted.read_at,
        workunits=_each(counted.workunits, exact=exact),
        results=_each(counted.results, exact=exact),
        outcomes=_each(counted.outcomes, exact=exact),
        people=_each(counted.people, exact=exact),
        stations=_with_lives(_stations(counted, exact=exact), now),
        counted=counted,
        waits=standstill.waits_of_project(now=now),
        apps=_apps(),
        latest=_latest(),
    )


def _each(numbers: Mapping[str, int], *, exact: bool) -> dict[str, Count]:
    return {name: Count(number, exact) for name, number in numbers.items()}


# Daemons


#: What each daemon does, in the order in which a workunit meets them.
_DOES = {
    "transitioner": "decides what each workunit needs next",
    "timeout_checker": "gives up results whose deadline has passed",
    "validator": "compares results",
    "assimilator": "hands answers to the science",
    "trickle_handler": "takes messages of running results",
    "file_deleter": "deletes files nobody needs",
    "purger": "archives finished workunits",
    "housekeeper": "does daily chores",
}


def _stations(counted: Counts, *, exact: bool) -> tuple[Station, ...]:
    return tuple(
        Station(
            daemon,
            does,
            Count(counted.waiting[daemon], exact),
            _behind(counted.oldest.get(daemon), counted.read_at),
        )
        for daemon, does in _DOES.items()
    )


def _behind(oldest: datetime | None, read_at: datetime) -> timedelta | None:
    """How long the oldest row had been due when it was read; None if none was."""
    return None if oldest is None or oldest > read_at else read_at - oldest


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
