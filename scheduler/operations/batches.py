"""Hurry batches on, let them expire, put them away [operations].

Theory of operation.  A batch is locked before its workunits, and these before their results, as a
submission does.  Giving a batch up is cancelling its workunits (`operations.cancel`): requests, on
which the transitioner acts.  Nothing here makes a move of the law.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from scheduler.models import Batch, Workunit
from scheduler.operations import cancel
from scheduler.sql import execute, fetch

#: How much higher the priority of an accelerated batch is; with fair shares, seconds: 11 days.
ACCELERATION = 1_000_000
#: How many batches one call completes or lets expire.
_AT_A_TIME = 100

State = Batch.State
_CLOSED = (State.COMPLETE, State.ABORTED)


class BatchNotReady(ValueError):
    """The batch is not in a state for this. Hint: the message says what comes first."""


@dataclass(frozen=True, slots=True)
class Accelerated:
    """How many workunits and unsent results got another priority; none if it was so already."""

    workunits: int
    results: int


def accelerate(batch_id: int, *, on: bool = True, now: datetime) -> Accelerated:
    """Send a batch's results before all others, first to quick hosts; or as before again.

    Results that are made later inherit it; results in progress go on.  Repeating it changes
    nothing.  Refuses a batch that is over (`BatchNotReady`).
    """
    with transaction.atomic():
        batch = _lock(batch_id)
        if batch.state not in (State.INIT, State.IN_PROGRESS):
            _refuse(batch, "cannot be accelerated", "submit its work again in a new batch")
        if batch.accelerate is on:
            return Accelerated(0, 0)
        Batch.objects.filter(pk=batch_id).update(accelerate=on)
        by = ACCELERATION if on else -ACCELERATION
        raised = fetch("accelerate_workunits", {"batch_id": batch_id, "by": by})
        ids = [row["id"] for row in raised]
        results = fetch("accelerate_results", {"workunit_ids": ids, "by": by, "now": now})
    return Accelerated(len(ids), len(results))


def abort(batch_id: int, *, reason: str, now: datetime) -> cancel.Outcome:
    """Ask for all its workunits to be cancelled; the batch takes no more."""
    batch = Batch.objects.select_related("submitter").get(pk=batch_id)
    return cancel.cancel(batch=batch.name, submitter=batch.submitter, reason=reason, now=now)


def set_expiry(batch_id: int, expire_at: datetime | None) -> None:
    """Let a batch expire at this moment, or never."""
    Batch.objects.filter(pk=batch_id).update(expire_at=expire_at)


def expire(*, now: datetime) -> int:
    """Give up open batches that are past their `expire_at`, and retire complete ones; how many.

    Source: BOINC's rule for the expiry of batches.  Each batch is a transaction of its own, and
    one call ends a hundred at the most.
    """
    due = Batch.objects.filter(
        expire_at__lte=now, state__in=(State.INIT, State.IN_PROGRESS, State.COMPLETE)
    )
    expired = due.order_by("expire_at", "id").values_list("id", "state")[:_AT_A_TIME]
    ended = 0
    for batch_id, state in list(expired):
        if state == State.COMPLETE:
            ended += Batch.objects.filter(pk=batch_id, state=state).update(state=State.RETIRED)
        else:
            abort(batch_id, reason="its batch expired", now=now)
            ended += 1
    return ended


def complete() -> int:
    """Complete open batches whose workunits are all finished and assimilated; how many."""
    params = {"in_progress": State.IN_PROGRESS.value, "complete": State.COMPLETE.value}
    with transaction.atomic():
        rows = fetch("lock_batches_that_may_be_complete", params | {"limit": _AT_A_TIME})
        if not rows:
            return 0
        # Asked again, now that no submission can add to them.
        return execute("complete_batches", params | {"batch_ids": [row["id"] for row in rows]})


def retire(batch_id: int) -> None:
    """Put a batch that is over away; refuses one that is not (`BatchNotReady`)."""
    with transaction.atomic():
        batch = _lock(batch_id)
        if batch.state not in (*_CLOSED, State.RETIRED):
            _refuse(batch, "cannot be retired", "wait for its end, or abort it")
        Batch.objects.filter(pk=batch_id).update(state=State.RETIRED)


def delete(batch_id: int) -> None:
    """Drop the row of a batch that is over and whose workunits are all purged.

    What became of its workunits stays in the archive.  Refuses others (`BatchNotReady`).
    """
    with transaction.atomic():
        batch = _lock(batch_id)
        if batch.state not in (State.COMPLETE, State.RETIRED):
            _refuse(batch, "cannot be deleted", "retire it first")
        left = Workunit.objects.filter(batch_id=batch_id).count()
        if left:
            msg = (
                f"Batch {batch.name!r} still has {left} workunits. "
                "Hint: wait until the purger has archived them."
            )
            raise BatchNotReady(msg)
        batch.delete()


def _lock(batch_id: int) -> Batch:
    return Batch.objects.select_for_update(no_key=True).get(pk=batch_id)


def _refuse(batch: Batch, what: str, hint: str) -> None:
    state = str(batch.get_state_display()).lower()
    msg = f"Batch {batch.name!r} is {state} and {what}. Hint: {hint}."
    raise BatchNotReady(msg)
