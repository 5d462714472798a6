"""Keeps samples of the project's figures, and reads them for charts.

The housekeeper keeps one sample a minute.  After `MINUTES_KEPT`, one sample of each hour remains,
which is dropped after `HOURS_KEPT`.

The names of figures are ``results.<state>``, ``outcomes.<outcome>``, ``workunits.<station>``,
``people.<kind>``, ``waiting.<daemon>``, ``examined.<daemon>``, ``disk.free_nbytes`` and
``database.nbytes``.  The numbers of outcomes and ``workunits.finished`` include purged work, and
``examined.<daemon>`` is the number of rows that a daemon has examined since the installation, so
they never fall and their differences are rates.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from scheduler import sql, storage
from scheduler.health import counts, daemon_activity
from scheduler.health.rules.series import Sample
from scheduler.sql import table_sizes

#: A day on the desk has a sample every five minutes, and two days of them cost 2 MB.
MINUTES_KEPT: Final = timedelta(days=2)
#: A year of hourly samples, and a month to compare with the year before.
HOURS_KEPT: Final = timedelta(days=396)
#: A sample stands for a time at most this much later: hourly ones, and a pause of the housekeeper.
_MAX_AGE: Final = timedelta(hours=3)


@dataclass(frozen=True, slots=True)
class Span:
    """A period that charts show: its length, and the time between two shown samples."""

    title: str
    length: timedelta
    step: timedelta

    @property
    def has_minutes(self) -> bool:
        """Whether samples of each minute are still kept for the whole period."""
        return self.length <= MINUTES_KEPT


class Period(Enum):
    """The periods of the charts, by their names in the address of the page."""

    DAY = Span("24 hours", timedelta(days=1), timedelta(minutes=5))
    WEEK = Span("7 days", timedelta(days=7), timedelta(hours=1))
    MONTH = Span("30 days", timedelta(days=30), timedelta(hours=3))
    YEAR = Span("1 year", timedelta(days=366), timedelta(days=1))


def take(*, now: datetime) -> int:
    """Keep a sample of the figures at `now`; return the number of new samples, 1 or 0."""
    parameters = {"at": now, "figures": json.dumps(figures(now=now))}
    return len(sql.fetch("health/keep_sample", parameters))


def figures(*, now: datetime) -> dict[str, float]:
    """Read the figures of a sample by name."""
    counted = counts.current(now=now)
    groups = {
        "results": counted.results,
        "outcomes": counted.outcomes,
        "workunits": counted.workunits,
        "people": counted.people,
        "waiting": counted.waiting,
        "examined": {
            daemon: passes.examined_rows for daemon, passes in daemon_activity.passes().items()
        },
    }
    named = {f"{group}.{name}": n for group, each in groups.items() for name, n in each.items()}
    return {
        **named,
        "disk.free_nbytes": storage.free_nbytes(),
        "database.nbytes": table_sizes.database_nbytes(),
    }


def drop_old(now: datetime, limit: int) -> int:
    """Drop samples whose retention time has passed, at most `limit` per statement."""
    dropped = 0
    parameters = {"before": now - HOURS_KEPT, "minutes_before": now - MINUTES_KEPT, "limit": limit}
    while (changed := sql.execute("health/drop_samples", parameters)) == limit:
        dropped += changed
    return dropped + changed


def read(period: Period, *, now: datetime) -> tuple[Sample, ...]:
    """Read the samples of a period that ends at `now`, oldest first, at most one for each step."""
    span = period.value
    parameters = {
        "since": now - span.length,
        "step": span.step,
        "with_minutes": span.has_minutes,
    }
    return tuple(
        Sample(row["at"], row["figures"]) for row in sql.fetch("health/read_samples", parameters)
    )


def before(times: Sequence[datetime]) -> dict[datetime, Sample]:
    """Map each time to the newest sample at or before it; one statement.

    A time without a sample in the `_MAX_AGE` before it is left out.
    """
    parameters = {"times": list(times), "tolerance": _MAX_AGE}
    return {
        row["wanted_at"]: Sample(row["at"], row["figures"])
        for row in sql.fetch("health/read_samples_before", parameters)
    }
