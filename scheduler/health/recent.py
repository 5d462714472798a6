"""Reads recent troubles for the operator's desk."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Count

from scheduler import sql
from scheduler.models import ScienceFailure

#: Refusals of this period are counted, at most the newest `MAX_REFUSALS`.
REFUSALS_WITHIN: Final = timedelta(days=1)
MAX_REFUSALS: Final = 10_000


@dataclass(frozen=True, slots=True)
class RefusalCount:
    """The number of recent refusals of an app's workunits for one reason."""

    reason: str
    app: str
    refusals: int


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
