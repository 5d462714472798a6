"""Counts the failures of science code, and parks subjects that fail too often.

A subject is a workunit (stages VALIDATE and ASSIMILATE), a trickle (TRICKLE) or an app (GENERATE).
Claims skip parked subjects.  `manage.py parked` lists, retries and drops parked subjects.
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
#: The number of transient failures that count as one permanent failure.
TRANSIENT_WEIGHT = 10
#: The maximum length of a stored traceback in characters.  The end of a longer traceback is kept,
#: because it contains the error.
MAX_ERROR_LENGTH = 16_000
FIRST_WAIT, MAX_WAIT = timedelta(seconds=10), timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Record:
    """The failures of a subject.

    `failures` is the number of permanent failures, and `transients` that of transient failures.
    """

    failures: int
    transients: int
    parked: bool

    @property
    def wait(self) -> timedelta:
        """Return the back-off before the next try."""
        return wait_after(self.failures + self.transients)


def wait_after(failures: int, longest: timedelta = MAX_WAIT) -> timedelta:
    """Return the back-off after `failures` failures.

    It is 10 s after the first failure, and doubles with each further failure up to `longest`.
    """
    doublings: int = 2 ** min(max(failures - 1, 0), 20)
    return min(FIRST_WAIT * doublings, longest)


def record(
    stage: ScienceFailure.Stage,
    errors: Mapping[int, str],
    apps: Mapping[int, int],
    *,
    now: datetime,
    transient: Collection[int] = (),
) -> dict[int, Record]:
    """Count one failure of each subject in `errors`; return the new records by subject id.

    `errors` maps the ids of subjects to error texts (tracebacks), and `apps` maps them to app ids.
    A subject is parked at the `max_science_failures`-th permanent failure, a number that its app
    sets.  Failures of the subjects in `transient` are counted separately.  They park a subject when
    they are `TRANSIENT_WEIGHT` times as many.
    """
    if not errors:
        return {}
    ids = sorted(errors)
    params = {
        "now": now,
        "stage": int(stage),
        "ids": ids,
        "app_ids": [apps[subject_id] for subject_id in ids],
        "errors": [_storable(errors[subject_id]) for subject_id in ids],
        "transients": [subject_id in transient for subject_id in ids],
        "weight": TRANSIENT_WEIGHT,
    }
    rows = sql.fetch("record_science_failures", params, "daemons.sql")
    for row in rows:
        if row["parked_now"]:
            log.error(
                "science_parked",
                extra={
                    "stage": stage.label.lower(),
                    "id": row["subject_id"],
                    "app": row["app"],
                    "failures": row["failures"] + row["transients"],
                    "hint": "see `manage.py parked show` for the traceback, or use `parked retry`",
                },
            )
    return {
        row["subject_id"]: Record(row["failures"], row["transients"], row["parked_at"] is not None)
        for row in rows
    }


def succeeded(stage: ScienceFailure.Stage, ids: Iterable[int]) -> None:
    """Delete the failure records of subjects (ids) for which science code has succeeded."""
    if subject_ids := sorted(ids):
        sql.execute(
            "forget_science_failures", {"stage": int(stage), "ids": subject_ids}, "daemons.sql"
        )


def _storable(error: str) -> str:
    """Return the error text as PostgreSQL can store it.

    Invalid characters are replaced.  Of a long text, only the last `MAX_ERROR_LENGTH` characters
    are returned.
    """
    clean = error.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    return clean if len(clean) <= MAX_ERROR_LENGTH else "...\n" + clean[-MAX_ERROR_LENGTH:]
