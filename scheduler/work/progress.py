"""Reads how far batches are, in scientists' words, and what they have cost."""

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

#: The rate of a batch is that of so long a while.
RATE_WINDOW: Final = timedelta(minutes=5)


def _of_results() -> Subquery:
    """What its results say of a workunit; NULL: nothing.

    A maximum, for what only asks whether some exist may be answered by reading those of the whole
    project first.  *validating* comes after *in_progress* in the alphabet as it does in life.
    """
    success = Q(outcome=Outcome.SUCCESS.value, validate_state__in=[one.value for one in AWAITED])
    word = Case(
        When(success, then=Value(Status.VALIDATING.value)),
        When(server_state=ServerState.IN_PROGRESS.value, then=Value(Status.IN_PROGRESS.value)),
    )
    results = Result.objects.filter(workunit_id=OuterRef("pk")).order_by()
    return Subquery(results.values("workunit_id").annotate(word=Max(word)).values("word"))


def status(now: datetime) -> Expression:
    """Where a workunit is: what `work.rules.statuses.status_of` says, for as many as one likes."""
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
    """How many workunits of a batch are where; purged ones are among the done and the failed.

    A failed one that was submitted again is counted no more: its successor is.

    `rate_per_second` is that of the last minutes; None of `seconds_left` is: nobody can say.
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
        """How many have neither an answer nor a reason why not."""
        return self.total - self.done - self.failed

    @property
    def sentence(self) -> str:
        """How many are where, as people read it."""
        parts = [f"{getattr(self, s)} {s.replace('_', ' ')}" for s in Status if getattr(self, s)]
        return f"{100 * self.fraction_done:.0f} % of {self.total}: {', '.join(parts) or 'none yet'}"

    @property
    def fraction_done(self) -> float:
        """Which part of them is over; 1 of a batch without any."""
        return (self.done + self.failed) / self.total if self.total else 1.0

    @property
    def seconds_left(self) -> float | None:
        """When the rest will be over if it goes on as in the last minutes; 0 if nothing is left."""
        if not self.open:
            return 0.0
        return self.open / self.rate_per_second if self.rate_per_second else None


@dataclass(frozen=True, slots=True)
class Cost:
    """What the results of a batch took, and were paid; those that the purger dropped as well."""

    results: int = 0
    cpu_seconds: float = 0.0
    elapsed_seconds: float = 0.0
    credit: float = 0.0


def progress_of(batches: Iterable[Batch], *, now: datetime) -> dict[int, Progress]:
    """How far each batch is, by id: one statement, 1 us a workunit."""
    known = {batch.pk: batch for batch in batches}
    params = {"batch_ids": list(known), "now": now, "lately": now - RATE_WINDOW}
    rows = sql.fetch("work/batch_progress", params)
    counted = {row.pop("batch_id"): row for row in rows}
    return {batch_id: _progress(known[batch_id], row, now) for batch_id, row in counted.items()}


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
    """What each batch has cost so far, by id: one statement."""
    ids = [batch.pk for batch in batches]
    rows = sql.fetch("work/batch_costs", {"batch_ids": ids})
    return {row.pop("batch_id"): Cost(**row) for row in rows}
