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
    """The usage on a day, of an app or of a batch.

    Only one of `day`, `app` and `batch` is set; `name` is the name of the batch.  A workunit counts
    on the day when it was finished.  A result and its credit count on the day when the result was
    reported, or when it was sent if it was never reported.
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
    """Return the usage from the day `since` to the day before `until` (UTC), grouped by `by`.

    If `submitter` is None, the batches of all submitters are included.  Purged workunits are
    included.
    """
    params = {
        "submitter_id": submitter and submitter.pk,
        "since": since,
        "until": until,
        "by": by,
    }
    return sql.fetch_into(Used, "work/usage", params)
