"""Reads the newest failed result of a workunit or batch, and parked failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django.db.models import F

from scheduler.lifecycle import Outcome
from scheduler.models import Batch, Result, ScienceFailure, Workunit
from scheduler.results.rules.replication import EXIT_ABORTED_BY_USER
from scheduler.work.rules.error_texts import LastError

#: Outcomes that count toward `max_error_results`.
ERRORS: Final = (Outcome.CLIENT_ERROR.value, Outcome.VALIDATE_ERROR.value)


@dataclass(frozen=True, slots=True)
class Troubles:
    """The newest failed result of a batch, and the failures that parked its workunits.

    `parked` is the number of parked failures, and `parked_error` the last line of the newest
    failure's traceback.
    """

    last_error: LastError | None
    parked: int
    parked_error: str

    @property
    def sentences(self) -> list[str]:
        """The failures as sentences for users."""
        lines = [] if self.last_error is None else [f"last error: {self.last_error.sentence}"]
        if self.parked:
            were = "workunit is" if self.parked == 1 else "workunits are"
            lines.append(
                f"{self.parked} {were} parked: validator or assimilator failed too often, most "
                f"recently with {self.parked_error}; staff retries with `manage.py parked retry`"
            )
        return lines


def last_error(**where: Any) -> LastError | None:
    """Return the failed result that was reported last, or None if no result failed.

    Only results that match the Django lookups `where` are considered.  A result that the volunteer
    aborted does not count as failed.
    """
    failed = Result.objects.filter(outcome__in=ERRORS, **where)
    # A result that the volunteer aborted is not an error of the workunit.
    failed = failed.exclude(outcome=Outcome.CLIENT_ERROR, exit_status=EXIT_ABORTED_BY_USER)
    row = failed.select_related("host").order_by(F("received_at").desc(nulls_last=True)).first()
    if row is None:
        return None
    host = f"host {row.host_id}" if row.host_id is not None else "a host"
    return LastError(row.name, row.outcome, row.exit_status, host, row.received_at, row.stderr)


def troubles_of(batch: Batch) -> Troubles:
    """Read the recent failures of a batch with two statements."""
    stages = [ScienceFailure.Stage.VALIDATE, ScienceFailure.Stage.ASSIMILATE]
    parked = list(
        ScienceFailure.objects.filter(
            stage__in=stages,
            parked_at__isnull=False,
            subject_id__in=Workunit.objects.filter(batch=batch).values("id"),
        )
        .order_by("-parked_at")
        .values_list("error", flat=True)
    )
    error = parked[0].strip().rpartition("\n")[2] if parked else ""
    return Troubles(last_error(workunit__batch=batch), len(parked), error)
