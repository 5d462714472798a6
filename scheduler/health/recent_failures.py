"""Groups the failures of the computers with the latest errors, for staff.

The computers are those in the counts of `health.outcome_counts`, which the housekeeper updates
every few minutes.  Only a limited number of their results is read, through the index of ended
results by host, so that the time does not depend on the numbers of results and computers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from scheduler import sql
from scheduler.health.rules import exit_codes
from scheduler.lifecycle import Outcome

#: How long ago a computer had errors, at most.
PERIOD: Final = timedelta(days=7)
#: The number of computers whose results are read, and of the newest ended results of each.
MAX_HOSTS: Final = 300
MAX_RESULTS_PER_HOST: Final = 40
#: The maximum numbers of groups and of results of a group that are shown.
MAX_GROUPS: Final = 200
MAX_SHOWN: Final = 30
#: The number of characters of a stderr that are shown, from its end.
MAX_STDERR: Final = 2_000
#: The maximum number of workunits that `workunits` returns.
MAX_WORKUNITS: Final = 1_000
#: The outcomes of failed results; results that timed out or were not sent are no failures.
FAILED: Final = (Outcome.CLIENT_ERROR, Outcome.VALIDATE_ERROR)

_LIMITS: Final = {"hosts": MAX_HOSTS, "results": MAX_RESULTS_PER_HOST}


@dataclass(frozen=True, slots=True)
class Group:
    """The values that failed results share; `app_version_id` is None if they have no version."""

    app_id: int
    app_version_id: int | None
    outcome: int
    exit_status: int


@dataclass(frozen=True, slots=True)
class GroupCount:
    """The failed results of a group that were read; `newest_at` is when the last one arrived."""

    group: Group
    app: str
    version: str
    results: int
    newest_at: datetime | None

    @property
    def code(self) -> str:
        """The exit code with its name, or that the validator refused the output."""
        if self.group.outcome == Outcome.VALIDATE_ERROR:
            return f"{exit_codes.label(self.group.exit_status)}, refused by the validator"
        return exit_codes.label(self.group.exit_status)


@dataclass(frozen=True, slots=True)
class Failures:
    """The groups, most results first, and how much was read to find them."""

    read_hosts: int
    read_results: int
    failures: int
    n_groups: int
    groups: tuple[GroupCount, ...]


@dataclass(frozen=True, slots=True)
class FailedResult:
    """A failed result; `stderr_end` has at most `MAX_STDERR` of `stderr_length` characters."""

    id: int
    name: str
    host_id: int
    received_at: datetime | None
    stderr_length: int
    stderr_end: str


def grouped(*, now: datetime) -> Failures:
    """Return the groups of recent failures, by two statements; at most `MAX_GROUPS`."""
    params = {**_read(now), "limit": MAX_GROUPS}
    rows = sql.fetch("health/count_recent_failures", params)
    groups = tuple(
        GroupCount(
            Group(row["app_id"], row["app_version_id"], row["outcome"], row["exit_status"]),
            row["app"] or f"app {row['app_id']}",
            _version(row["version_num"], row["platform"], row["plan_class"]),
            row["results"],
            row["newest_at"],
        )
        for row in rows
        if row["app_id"] is not None
    )
    totals = rows[0]
    return Failures(
        totals["read_hosts"],
        totals["read_results"],
        totals["failures"],
        totals["groups"],
        groups,
    )


def of_group(group: Group, *, now: datetime) -> list[FailedResult]:
    """Return the newest failed results of a group that `grouped` counts; at most `MAX_SHOWN`."""
    return sql.fetch_into(
        FailedResult,
        "health/read_recent_failures",
        {
            **_read(now),
            "app_id": group.app_id,
            "app_version_id": group.app_version_id,
            "outcome": group.outcome,
            "exit_status": group.exit_status,
            "limit": MAX_SHOWN,
            "stderr": MAX_STDERR,
        },
    )


def workunits(minimum: int, *, app_id: int | None = None, now: datetime) -> list[int]:
    """Return the ids of workunits with at least `minimum` failed results, by two statements.

    At least one of these results must be among those that `grouped` reads.  At most
    `MAX_WORKUNITS`, those with most failed results first; with `app_id`, only those of this app.
    """
    params = {**_read(now), "minimum": minimum, "app_id": app_id, "limit": MAX_WORKUNITS}
    return [row[0] for row in sql.fetch_rows("health/find_failed_workunits", params)]


def _read(now: datetime) -> dict[str, Any]:
    """Return which results are read: the hosts, and the maximum number of results of each."""
    since = {"since": now - PERIOD, "hosts": _LIMITS["hosts"]}
    ids = [row[0] for row in sql.fetch_rows("health/read_failing_hosts", since)]
    return {"host_ids": ids, "results": _LIMITS["results"]}


def _version(number: int | None, platform: str | None, plan_class: str | None) -> str:
    if number is None:
        return "no version"
    plan = f" ({plan_class})" if plan_class else ""
    return f"{number / 100:.2f} {platform}{plan}"
