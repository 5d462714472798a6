"""Counts results by app version and host in each hour, and reads error rates.

Theory of operation.  The statements that update `host_app_version` after a report and a validation
also add to its columns `uncounted_*`.  They write this row anyway, so that counting costs no
further row, index or statement, and a purge of results changes nothing.  The housekeeper moves the
numbers to `version_outcomes` and `host_outcomes` every few minutes, in short transactions that wait
for no lock.  Each number is moved exactly once, except for those of a computer that its owner
deleted before.

A result counts in the hour of this move.  Results that the project aborted, or that timed out, do
not count.  Hosts are counted only while they had an error in the last week.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from scheduler import sql
from scheduler.health.rules.error_rates import DOUBT, Rate
from scheduler.models import AppVersion

#: The longest period of the page of error rates.
MAX_PERIOD: Final = timedelta(days=7)
#: How long counts are kept: the longest period, and the hour in which it begins.
COUNTS_KEPT: Final = MAX_PERIOD + timedelta(hours=2)
#: The maximum number of hosts that are counted, which limits the table to 340 000 rows.
MAX_HOSTS: Final = 2000
#: The maximum number of hosts on the page.
MAX_SHOWN_HOSTS: Final = 50
#: The maximum number of versions, apps and platforms on the page.
MAX_SHOWN: Final = 100


def count(now: datetime, limit: int) -> int:
    """Move the uncounted numbers, at most `limit` rows in a statement; return the new reports."""
    params = {
        "hour": hour_of(now),
        "since": now - MAX_PERIOD,
        "max_hosts": MAX_HOSTS,
        "limit": limit,
    }
    after, reported = 0, 0
    while True:
        [row] = sql.fetch("health/count_outcomes", {**params, "after": after})
        reported += int(row["reported"])
        if row["changed"] < limit:
            return reported
        after = row["last"]


def hour_of(now: datetime) -> datetime:
    return now.replace(minute=0, second=0, microsecond=0)


def of_versions(period: timedelta, *, now: datetime) -> dict[int, Rate]:
    """Read the rate of each app version with counted results, by the id of the version."""
    rows = sql.fetch("health/read_version_outcomes", {"since": hour_of(now - period)})
    return {
        row["app_version_id"]: Rate("", row["reported"], row["errors"], row["invalid"])
        for row in rows
    }


def worst_versions(
    rates: Mapping[int, Rate], limit: int = MAX_SHOWN
) -> list[tuple[AppVersion, Rate]]:
    """Return the versions with the highest rates, with their apps and platforms."""
    ids = sorted(rates, key=lambda id_: (-rates[id_].rank, -rates[id_].reported, id_))[:limit]
    versions = AppVersion.objects.select_related("app", "platform").in_bulk(ids)
    return [(versions[id_], rates[id_]) for id_ in ids if id_ in versions]


def by_app(rows: Iterable[tuple[AppVersion, Rate]]) -> list[tuple[int, Rate]]:
    """Return the ids of apps with the sums of their versions, the highest rates first."""
    return _summed((version.app_id, version.app.name, rate) for version, rate in rows)


def by_platform(rows: Iterable[tuple[AppVersion, Rate]]) -> list[tuple[int, Rate]]:
    """Return the ids of platforms with the sums of their versions, the highest rates first."""
    return _summed((version.platform_id, version.platform.name, rate) for version, rate in rows)


def _summed(rows: Iterable[tuple[int, str, Rate]]) -> list[tuple[int, Rate]]:
    sums: dict[int, Rate] = {}
    for id_, name, rate in rows:
        total = sums.get(id_, Rate(name))
        sums[id_] = replace(
            total,
            reported=total.reported + rate.reported,
            errors=total.errors + rate.errors,
            invalid=total.invalid + rate.invalid,
        )
    return sorted(sums.items(), key=lambda pair: (-pair[1].rank, pair[1].name))


def worst_hosts(period: timedelta, *, now: datetime) -> list[tuple[int, Rate]]:
    """Read the ids and rates of the hosts with the highest rates, at most `MAX_SHOWN_HOSTS`."""
    params = {"since": hour_of(now - period), "doubt": DOUBT, "limit": MAX_SHOWN_HOSTS}
    rows = sql.fetch("health/read_worst_hosts", params)
    rates = [
        (
            row["host_id"],
            Rate(
                f"{row['domain_name'] or 'host'} #{row['host_id']}",
                row["reported"],
                row["errors"],
                row["invalid"],
            ),
        )
        for row in rows
    ]
    return sorted(rates, key=lambda pair: (-pair[1].rank, pair[0]))
