"""Counts how often science failed on a subject, and parks it in the end.

A subject is a workunit (VALIDATE, ASSIMILATE), a trickle (TRICKLE) or an app (GENERATE).  Claims
leave parked subjects out; `manage.py parked` shows them, tries them again or gives them up.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from scheduler import sql
from scheduler.models import ScienceFailure

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

log = logging.getLogger(__name__)

Stage = ScienceFailure.Stage
#: So many transient failures weigh as much as one that is not.
TRANSIENT_WEIGHT = 10
#: How much of a traceback is kept: its end, which says what happened; characters.
LONGEST_ERROR = 16_000
FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=10), timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Record:
    """How often a subject failed by now, and whether it is parked."""

    failures: int
    transients: int
    parked: bool

    @property
    def wait(self) -> timedelta:
        """How long it is left alone before the next try: twice as long after each failure."""
        return wait_after(self.failures + self.transients)


def wait_after(failures: int) -> timedelta:
    """How long a subject waits after so many failures: 10 s, doubled each time, up to an hour."""
    doublings: int = 2 ** min(max(failures - 1, 0), 20)
    return min(FIRST_WAIT * doublings, LONGEST_WAIT)


def record(
    stage: ScienceFailure.Stage,
    errors: Mapping[int, str],
    apps: Mapping[int, int],
    *,
    now: datetime,
    transient: Collection[int] = (),
) -> dict[int, Record]:
    """Count one more failure of each subject, in one statement; what each has come to.

    `errors` says by subject what happened (the end of a traceback), `apps` whose science it was.
    A subject is parked at its app's `max_science_failures`-th failure; the `transient` ones are
    counted apart, and park it only after `TRANSIENT_WEIGHT` times as many.
    """
    if not errors:
        return {}
    ids = sorted(errors)
    rows = sql.fetch(
        "record_science_failures",
        {
            "now": now,
            "stage": int(stage),
            "ids": ids,
            "app_ids": [apps[one] for one in ids],
            "errors": [_fit(errors[one]) for one in ids],
            "transients": [one in transient for one in ids],
            "weight": TRANSIENT_WEIGHT,
        },
        "daemons.sql",
    )
    for row in rows:
        if row["parked_now"]:
            log.error(
                "science parked",
                extra={
                    "stage": stage.label.lower(),
                    "id": row["subject_id"],
                    "app": row["app"],
                    "failures": row["failures"] + row["transients"],
                    "hint": "manage.py parked shows its traceback and tries it again",
                },
            )
    return {
        row["subject_id"]: Record(row["failures"], row["transients"], row["parked_at"] is not None)
        for row in rows
    }


def failed(
    stage: ScienceFailure.Stage,
    errors: Mapping[int, str],
    apps: Mapping[int, int],
    *,
    now: datetime,
    transient: Collection[int] = (),
) -> set[int]:
    """As `record`; only which of the subjects are parked now."""
    records = record(stage, errors, apps, now=now, transient=transient)
    return {one for one, its in records.items() if its.parked}


def succeeded(stage: ScienceFailure.Stage, ids: Iterable[int]) -> None:
    """Forget the failures of subjects that went well after all."""
    if wanted := sorted(ids):
        sql.execute("forget_science_failures", {"stage": int(stage), "ids": wanted}, "daemons.sql")


def _fit(error: str) -> str:
    """Keep what PostgreSQL can keep, and the end of what is too long."""
    clean = error.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    return clean if len(clean) <= LONGEST_ERROR else "...\n" + clean[-LONGEST_ERROR:]
