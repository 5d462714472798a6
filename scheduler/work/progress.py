"""Reads the progress of batches by workunit status, and their cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import (
    Case,
    CharField,
    Expression,
    Max,
    OuterRef,
    Q,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce

from scheduler import sql
from scheduler.lifecycle import Outcome, ReleaseState, ServerState
from scheduler.models import Batch, Result
from scheduler.work.rules.statuses import AWAITED, Status

#: Period over which the rate of a batch is measured.
RATE_WINDOW: Final = timedelta(minutes=5)


def _of_results() -> Subquery:
    """Return an SQL expression for the part of the status that depends on a workunit's results.

    The value is *validating*, *in_progress* or NULL.  The expression is a maximum, because for
    EXISTS the planner may read the results of the whole project first.  *validating* sorts after
    *in_progress*, so the maximum is *validating* if a workunit has results of both kinds.
    """
    awaited = [state.value for state in AWAITED]
    success = Q(outcome=Outcome.SUCCESS.value, validate_state__in=awaited)
    word = Case(
        When(success, then=Value(Status.VALIDATING.value)),
        When(server_state=ServerState.IN_PROGRESS.value, then=Value(Status.IN_PROGRESS.value)),
    )
    results = Result.objects.filter(workunit_id=OuterRef("pk")).order_by()
    return Subquery(results.values("workunit_id").annotate(word=Max(word)).values("word"))


def status(now: datetime) -> Expression:
    """Return an SQL expression that computes the same status as `statuses.status_of`."""
    is_held = ~Q(release_state=ReleaseState.RELEASED.value)
    waiting = Case(
        When(is_held | Q(start_after__gt=now), then=Value(Status.WAITING.value)),
        default=Value(Status.UNSENT.value),
    )
    return Case(
        When(canonical_result__isnull=False, then=Value(Status.DONE.value)),
        When(~Q(error_mask=0), then=Value(Status.FAILED.value)),
        default=Coalesce(_of_results(), waiting),
        output_field=CharField(),
    )


@dataclass(frozen=True, slots=True)
class Progress:
    """The numbers of a batch's workunits by status.

    Purged workunits count as done or failed.  For a failed workunit that was retried, only the new
    workunit is counted.  `rate_per_second` is the number of workunits that finished per second
    during the last `RATE_WINDOW`.
    """

    total: int = 0
    waiting: int = 0
    unsent: int = 0
    in_progress: int = 0
    validating: int = 0
    done: int = 0
    failed: int = 0
    rate_per_second: float = 0.0

    @property
    def open(self) -> int:
        """The number of workunits that are neither done nor failed."""
        return self.total - self.done - self.failed

    @property
    def sentence(self) -> str:
        """The counts as text for users."""
        parts = [f"{getattr(self, s)} {s.replace('_', ' ')}" for s in Status if getattr(self, s)]
        return f"{100 * self.fraction_done:.0f} % of {self.total}: {', '.join(parts) or 'none yet'}"

    @property
    def fraction_done(self) -> float:
        """The fraction of the workunits that are done or failed; 1 for an empty batch."""
        return (self.done + self.failed) / self.total if self.total else 1.0

    @property
    def seconds_left(self) -> float | None:
        """The estimated seconds until all workunits are finished; None if the rate is unknown."""
        if not self.open:
            return 0.0
        return self.open / self.rate_per_second if self.rate_per_second else None


@dataclass(frozen=True, slots=True)
class Cost:
    """The time that a batch's sent results used, and their credit, including purged results."""

    results: int = 0
    cpu_seconds: float = 0.0
    elapsed_seconds: float = 0.0
    credit: float = 0.0


def progress_of(batches: Iterable[Batch], *, now: datetime) -> dict[int, Progress]:
    """Return the progress of the batches by batch id, with one statement (1 us per workunit)."""
    by_id = {batch.pk: batch for batch in batches}
    params = {"batch_ids": list(by_id), "now": now, "lately": now - RATE_WINDOW}
    rows = sql.fetch("work/batch_progress", params)
    counted = {row.pop("batch_id"): row for row in rows}
    return {batch_id: _progress(by_id[batch_id], row, now) for batch_id, row in counted.items()}


def _progress(batch: Batch, counts: dict[str, int], now: datetime) -> Progress:
    done = counts.pop(Status.DONE) + batch.purged_done
    failed = counts.pop(Status.FAILED) + batch.purged_failed
    recent = counts.pop("lately")
    seconds = max(1.0, min(RATE_WINDOW, now - batch.created_at).total_seconds())
    return Progress(
        total=done + failed + sum(counts.values()),
        done=done,
        failed=failed,
        rate_per_second=recent / seconds,
        **counts,
    )


def costs_of(batches: Iterable[Batch]) -> dict[int, Cost]:
    """Return the costs of the batches so far by batch id, with one statement."""
    ids = [batch.pk for batch in batches]
    rows = sql.fetch("work/batch_costs", {"batch_ids": ids})
    return {row.pop("batch_id"): Cost(**row) for row in rows}
