"""Counts unsent results and active hosts by class of homogeneous redundancy.

Theory of operation.  The class of a host is computed from its description and not stored
(`rules.homogeneous_redundancy`), and the time of the last request of hosts has no index.  So the
housekeeper counts the active hosts of each class once an hour, with one scan of the table, and
stores the counts in a file; it does so only while an app sends its results by class.  Unsent
results are counted at each call of `unsent`, at most `MAX_READ` of all apps together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from scheduler import sql, storage
from scheduler.dispatch.rules import homogeneous_redundancy
from scheduler.dispatch.rules.homogeneous_redundancy import COARSE, FINE, NONE, UNKNOWN
from scheduler.dispatch.rules.sendability import SEEN_WITHIN
from scheduler.models import App

#: The maximum number of unsent results that are read, of all apps together.
MAX_READ: Final = 10_000
#: The maximum number of workunits that `workunits` returns.
MAX_WORKUNITS: Final = 100
#: Counts of hosts that are older are not shown: the housekeeper does not run.
MAX_AGE: Final = timedelta(hours=6)
#: The file of the counts of hosts, in `VAR_DIR`.
_NOTICE: Final = "run/host_classes"
_TYPES: Final = (FINE, COARSE)


@dataclass(frozen=True, slots=True)
class HostCounts:
    """The numbers of active hosts at `read_at`, by `hr_type` and class.

    Hosts of unknown classes are counted under `UNKNOWN`.
    """

    read_at: datetime
    by_type: Mapping[int, Mapping[int, int]]

    def of_class(self, hr_type: int, hr_class: int) -> int:
        """Return the hosts that can get results bound to the class; 0 is bound to no class."""
        counts = self.by_type.get(hr_type, {})
        if hr_class != UNKNOWN:
            return counts.get(hr_class, 0)
        return sum(number for each, number in counts.items() if each != UNKNOWN)


@dataclass(frozen=True, slots=True)
class UnsentClass:
    """The unsent results of an app whose workunits are bound to one class; 0 means unbound.

    `hosts` is the number of active hosts that can get them, or None if it is unknown.
    """

    app: App
    hr_class: int
    results: int
    workunits: int
    oldest_at: datetime
    hosts: int | None

    @property
    def label(self) -> str:
        """The class in words."""
        return homogeneous_redundancy.label(self.app.hr_type, self.hr_class)


@dataclass(frozen=True, slots=True)
class Unsent:
    """The counts of unsent results by app and class, and how many were read of each app.

    `cut_apps` are the apps with more unsent results than `limit`, which is for each app.
    """

    classes: tuple[UnsentClass, ...]
    apps: tuple[App, ...]
    limit: int
    cut_apps: tuple[App, ...]


@dataclass(frozen=True, slots=True)
class BoundWorkunit:
    """A workunit with unsent results, and the time at which the oldest of them was created."""

    id: int
    name: str
    results: int
    oldest_at: datetime


def store(*, now: datetime) -> None:
    """Count the active hosts by class and store the counts; delete them if no app has classes."""
    if not App.objects.filter(hr_type__gt=NONE).exists():
        forget()
        return
    counts: dict[int, Counter[int]] = {hr_type: Counter() for hr_type in _TYPES}
    seen_since = {"seen_since": now - SEEN_WITHIN}
    for row in sql.fetch("dispatch/count_described_hosts", seen_since):
        number = row.pop("hosts")
        for hr_type in _TYPES:
            counts[hr_type][homogeneous_redundancy.hr_class(hr_type, **row)] += number
    storage.put_notice(_NOTICE, {"read_at": now.isoformat(), "by_type": counts})


def hosts(*, now: datetime) -> HostCounts | None:
    """Return the stored counts; None if they are missing or older than `MAX_AGE`.

    Reads one file and no table.
    """
    kept: Any = storage.notice(_NOTICE)
    if kept is None:
        return None
    try:
        counts = HostCounts(
            datetime.fromisoformat(kept["read_at"]),
            {
                int(hr_type): {int(hr_class): int(n) for hr_class, n in by_class.items()}
                for hr_type, by_class in kept["by_type"].items()
            },
        )
        return counts if abs(now - counts.read_at) <= MAX_AGE else None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def forget() -> None:
    """Delete the stored counts of hosts."""
    storage.put_notice(_NOTICE, None)


def unsent(counts: HostCounts | None) -> Unsent:
    """Return the unsent results of apps with classes, by app and class, by two statements.

    `counts` are those of `hosts`.  Of each app, the results that are sent first are read.
    """
    apps = {app.pk: app for app in _apps()}
    limit = _limit(apps)
    params = {"app_ids": list(apps), "limit": limit}
    rows = sql.fetch("dispatch/count_unsent_by_class", params)
    read: Counter[int] = Counter()
    classes = []
    for row in rows:
        app = apps[row.pop("app_id")]
        read[app.pk] += row["results"]
        number = None if counts is None else counts.of_class(app.hr_type, row["hr_class"])
        classes.append(UnsentClass(app, **row, hosts=number))
    order = {app_id: place for place, app_id in enumerate(apps)}
    classes.sort(key=lambda each: (order[each.app.pk], each.hr_class))
    cut_apps = tuple(app for app in apps.values() if read[app.pk] >= limit)
    return Unsent(tuple(classes), tuple(apps.values()), limit, cut_apps)


def workunits(app_id: int, hr_class: int) -> list[BoundWorkunit]:
    """Return workunits of a class that `unsent` counts, oldest first; at most `MAX_WORKUNITS`."""
    limit = _limit(_apps())
    params = {
        "app_id": app_id,
        "hr_class": hr_class,
        "limit": limit,
        "shown": MAX_WORKUNITS,
    }
    return sql.fetch_into(BoundWorkunit, "dispatch/read_unsent_of_class", params)


def _apps() -> list[App]:
    """Return the apps that send their results by class, without the other columns."""
    columns = ("name", "user_friendly_name", "hr_type")
    return list(App.objects.filter(hr_type__gt=NONE).only(*columns).order_by("name"))


def _limit(apps: Sequence[App] | Mapping[int, App]) -> int:
    """Return how many unsent results are read of each app."""
    return MAX_READ // max(1, len(apps))
