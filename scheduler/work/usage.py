"""Reads what somebody's batches have taken, by day, app or batch."""

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
    """What a day, an app or a batch took: of `day`, `app` and `batch` one is named.

    Finished workunits count on the day when they were finished, results that were sent on that
    when they were reported (sent, if they never were), credit with its result.
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
    """What was used from the day `since` until before the day `until` (UTC); None: by everybody.

    Purged workunits are counted with the others.
    """
    params = {
        "submitter_id": submitter and submitter.pk,
        "since": since,
        "until": until,
        "by": by,
    }
    return sql.fetch_into(Used, "work/usage", params)
