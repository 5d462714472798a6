"""Reads the resources that a submitter's batches used, by day, app or batch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Final, Literal

from scheduler import sql
from scheduler.models import Account

By = Literal["day", "app", "batch"]
WAYS: Final[tuple[By, ...]] = ("day", "app", "batch")


@dataclass(frozen=True, slots=True)
class Used:
    """The usage of a day, an app or a batch: only one of `day`, `app` and `batch` is set.

    A workunit counts on the day when it was finished; a result and its credit on the day when it
    was reported, or sent if it was never reported.
    """

    day: date | None
    app: str | None
    batch: int | None
    name: str | None
    workunits: int
    results: int
    cpu_seconds: float
    elapsed_seconds: float
    credit: float


def usage_of(submitter: Account | None, *, since: date, until: date, by: By) -> list[Used]:
    """Return the usage from the day `since` until the day before `until` (UTC).

    `submitter` None means all submitters.  Purged workunits are included.
    """
    params = {
        "submitter_id": submitter and submitter.pk,
        "since": since,
        "until": until,
        "by": by,
    }
    return sql.fetch_into(Used, "work/usage", params)
