"""Reads the status of the project, with cached counts of large tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.cache import cache
from django.db.models import Case, F, Value, When

from scheduler import storage
from scheduler.health import counts, daemon_activity, standstill
from scheduler.health.counts import Count, Counts
from scheduler.health.rules.standstill_causes import Wait
from scheduler.messages import news
from scheduler.models import App, AppVersion, CreditEntry
from scheduler.people import sharing

#: Time for which a status is cached.
KEEP = timedelta(seconds=2)
#: Number of newest valid results on the status page.
LATEST = 8
#: Number of newest news on the status page.
NEWS = 3

_CACHE_KEY = "manyhands.status"


@dataclass(frozen=True, slots=True)
class Station:
    """The backlog of one daemon; `waiting` is the number of due rows.

    `behind` is the time for which the oldest row has been due, or None if no row is due, and for
    the work generator, which has no queue.  `silent` is the time since the daemon's last
    heartbeat, or None if the daemon never sent a heartbeat.
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
    """An app that sends work, with its newest version for each platform and plan class.

    `description` is plain text, and empty if staff wrote none.  `done` is the number of workunits
    with an answer, including purged ones; it is None for an app that is newer than the counts.
    """

    id: int
    name: str
    title: str
    description: str
    done: Count | None
    versions: tuple[VersionLine, ...]


@dataclass(frozen=True, slots=True)
class ValidLine:
    """A valid result: its app, the volunteer's name, and the granted credit.

    The name is empty for an account that is not active or does not share its statistics.
    """

    app: str
    volunteer: str
    credit: float
    granted_at: datetime


@dataclass(frozen=True, slots=True)
class NewsLine:
    """A piece of news, with the beginning of its text."""

    id: int
    title: str
    beginning: str
    published_at: datetime


@dataclass(frozen=True, slots=True)
class Status:
    """The content of the status page; `read_at` is the time at which rows were counted.

    `due_since` maps daemons to the time since which their oldest work has been due, or to None.
    """

    read_at: datetime
    workunits: dict[str, Count]
    results: dict[str, Count]
    outcomes: dict[str, Count]
    people: dict[str, Count]
    stations: tuple[Station, ...]
    due_since: Mapping[str, datetime | None]
    counted: Counts
    waits: tuple[Wait, ...]
    apps: tuple[AppLine, ...]
    latest: tuple[ValidLine, ...]
    news: tuple[NewsLine, ...]


def words(name: str) -> str:
    """Return the name of a count with spaces instead of underscores.

    >>> words("waiting_for_validation")
    'waiting for validation'
    """
    return name.replace("_", " ")


def current(*, now: datetime) -> Status:
    """Return the cached status if it is at most `KEEP` old, else read and cache a new status."""
    status: Status | None = cache.get(_CACHE_KEY)
    if status is None:
        status = read(now=now)
        cache.set(_CACHE_KEY, status, KEEP.total_seconds())
    return status


def forget() -> None:
    """Delete the cached status and the cached counts; the next call reads the tables."""
    forget_own()
    counts.forget()


def forget_own() -> None:
    """Delete the status that this process caches."""
    cache.delete(_CACHE_KEY)


def read(*, now: datetime) -> Status:
    """Read the status from the tables, with cached counts of large tables."""
    counted = counts.current(now=now)
    due_since = daemon_activity.due_since(now=now)
    exact = now - counted.read_at <= KEEP
    return Status(
        read_at=counted.read_at,
        workunits=_each(counted.workunits, exact=exact),
        results=_each(counted.results, exact=exact),
        outcomes=_each(counted.outcomes, exact=exact),
        people=_each(counted.people, exact=exact),
        stations=_stations(counted, due_since, exact=exact, now=now),
        due_since=due_since,
        counted=counted,
        waits=standstill.waits_of_project(now=now),
        apps=_apps(counted, exact=exact),
        latest=_latest(),
        news=_news(),
    )


def _each(numbers: Mapping[str, int], *, exact: bool) -> dict[str, Count]:
    return {name: Count(number, exact) for name, number in numbers.items()}


# Daemons


#: The task of each daemon, in the order in which the daemons process a workunit.
_DOES = {
    "work_generator": "creates workunits with the science code",
    "transitioner": "decides what each workunit needs next",
    "timeout_checker": "gives up results whose deadline has passed",
    "validator": "compares results",
    "assimilator": "passes answers to the science code",
    "trickle_handler": "handles messages of running results",
    "file_deleter": "deletes files that are no longer needed",
    "purger": "archives finished workunits",
    "housekeeper": "does daily chores",
}
#: The names of the daemons in this order.
DAEMONS = tuple(_DOES)


def _stations(
    counted: Counts, due_since: Mapping[str, datetime | None], *, exact: bool, now: datetime
) -> tuple[Station, ...]:
    seen = storage.signs_of_life()
    return tuple(
        Station(
            daemon,
            does,
            Count(counted.waiting[daemon], exact),
            behind=daemon_activity.lag(due_since.get(daemon), now=now),
            silent=now - seen[daemon] if daemon in seen else None,
        )
        for daemon, does in _DOES.items()
    )


# Apps and their newest valid results


def _apps(counted: Counts, *, exact: bool) -> tuple[AppLine, ...]:
    newest: dict[int, dict[tuple[str, str], VersionLine]] = {}
    versions = AppVersion.objects.filter(deprecated=False).order_by("version_num")
    fields = ("app_id", "platform__name", "plan_class", "version_num")
    for app_id, platform, plan_class, number in versions.values_list(*fields):
        line = VersionLine(platform, f"{number / 100:.2f}", plan_class)
        newest.setdefault(app_id, {})[platform, plan_class] = line
    return tuple(
        AppLine(
            id=app.pk,
            name=app.name,
            title=app.user_friendly_name or app.name,
            description=app.description,
            done=_done(counted, app.name, exact=exact),
            versions=tuple(line for _, line in sorted(newest.get(app.pk, {}).items())),
        )
        for app in App.objects.filter(deprecated=False).order_by("name")
    )


def _done(counted: Counts, name: str, *, exact: bool) -> Count | None:
    counts_of_app = counted.apps.get(name)
    return None if counts_of_app is None else Count(counts_of_app.done, exact)


def _latest() -> tuple[ValidLine, ...]:
    """Return the newest grants of credit for results, newest first."""
    paid = CreditEntry.objects.filter(result_id__isnull=False, app__isnull=False)
    # The page is public, so it never shows the e-mail address, and a name only with consent.
    name = Case(When(sharing.shares("account"), then=F("account__name")), default=Value(""))
    entries = paid.select_related("app").annotate(volunteer=name).order_by("-id")[:LATEST]
    return tuple(
        ValidLine(
            app=entry.app.user_friendly_name or entry.app.name,
            volunteer=entry.volunteer,
            credit=float(entry.amount),
            granted_at=entry.granted_at,
        )
        for entry in entries
        if entry.app is not None
    )


# News


def _news() -> tuple[NewsLine, ...]:
    return tuple(
        NewsLine(row.pk, row.title, news.beginning(row.text), row.published_at)
        for row in news.page(count=NEWS).rows
    )
