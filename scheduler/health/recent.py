"""Reads recent troubles for the operator's desk."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db.models import Count

from scheduler import sql
from scheduler.hosts.decision_texts import NO_RESULTS, WHY
from scheduler.models import ScienceFailure

#: Refusals of this period are counted, at most the newest `MAX_REFUSALS`.
REFUSALS_WITHIN: Final = timedelta(days=1)
MAX_REFUSALS: Final = 10_000
#: Requests for work of this period are counted, of at most the newest `MAX_HOSTS` hosts.
REQUESTS_WITHIN: Final = timedelta(days=1)
#: Decisions of this number of hosts are read in about 10 ms.
MAX_HOSTS: Final = 1000


@dataclass(frozen=True, slots=True)
class RefusalCount:
    """The number of recent refusals of an app's workunits for one reason."""

    reason: str
    app: str
    refusals: int


@dataclass(frozen=True, slots=True)
class WithoutWorkCount:
    """The number of hosts whose newest request for work got nothing for one reason.

    The host's page shows `reason` to staff and `text` to its owner.  `newest_id` is the id of the
    newest of these hosts.
    """

    reason: str
    text: str
    hosts: int
    newest_id: int


@dataclass(frozen=True, slots=True)
class WithoutWork:
    """The hosts without work by reason, most first; `is_cut` if older hosts may be left out."""

    counts: tuple[WithoutWorkCount, ...]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class ParkedCount:
    """The number of parked subjects of one stage of science code."""

    stage: int
    label: str
    subjects: int


def refusals(*, now: datetime) -> list[RefusalCount]:
    """Count the newest refusals by reason and app, most first."""
    parameters = {"since": now - REFUSALS_WITHIN, "limit": MAX_REFUSALS}
    return [RefusalCount(**row) for row in sql.fetch("health/count_recent_refusals", parameters)]


def hosts_without_work(*, now: datetime) -> WithoutWork:
    """Count the hosts whose newest request for work got nothing, by the most frequent reason.

    Denied and merged hosts are not counted.
    """
    since = (now - REQUESTS_WITHIN).astimezone(UTC)
    # As `boinc.translate.decision` writes times.
    since_text = since.isoformat(timespec="seconds")
    parameters = {"since": since, "since_text": since_text, "limit": MAX_HOSTS}
    rows = sql.fetch("health/count_hosts_without_work", parameters)
    counts = tuple(
        WithoutWorkCount(
            reason=row["reason"].replace("_", " ") or "no results",
            text=WHY.get(row["reason"], "") if row["reason"] else NO_RESULTS,
            hosts=row["hosts"],
            newest_id=row["newest_id"],
        )
        for row in rows
        if row["reason"] is not None
    )
    return WithoutWork(counts, is_cut=sum(row["hosts"] for row in rows) >= MAX_HOSTS)


def parked() -> list[ParkedCount]:
    """Count the parked subjects by stage."""
    counted = (
        ScienceFailure.objects.filter(parked_at__isnull=False)
        .values_list("stage")
        .annotate(subjects=Count("id"))
        .order_by("stage")
    )
    return [
        ParkedCount(stage, ScienceFailure.Stage(stage).label, subjects)
        for stage, subjects in counted
    ]
