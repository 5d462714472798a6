"""Hurry batches on, let them expire, put them away.

Theory of operation.  A batch is locked before its workunits, and these before their results, as a
submission does.  Giving a batch up is cancelling its workunits (`work.cancel`): requests, on
which the transitioner acts.  Nothing here makes a move of the law.  What touches all workunits of a
batch does so in chunks: first the batch's own state, then transactions of their own, which the
housekeeper repeats (`finish`) for a batch that lacks the moment of its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from scheduler import wakeups
from scheduler.models import Account, Batch, Workunit
from scheduler.sql import execute, fetch
from scheduler.work import cancel
from scheduler.work.submission.facts import NewBatch
from scheduler.work.submission.rules import new_workunits
from scheduler.work.submission.submission_checks import may_wish

#: How much higher the priority of an accelerated batch is; with fair shares, seconds: 11 days.
ACCELERATION = 1_000_000
#: How many batches one call completes or lets expire.
_AT_A_TIME = 100
#: How many workunits one transaction touches.
_CHUNK = 5000

State = Batch.State
_CLOSED = (State.COMPLETE, State.ABORTED)


class BatchNotReady(ValueError):
    """The batch is not in a state for this. Hint: the message says what comes first."""


class BadChange(ValueError):
    """A batch cannot be changed so. Hint: the message says what to change."""


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
        raised = fetch("work/accelerate_workunits", {"batch_id": batch_id, "by": by})
        ids = [row["id"] for row in raised]
        results = fetch("work/accelerate_results", {"workunit_ids": ids, "by": by, "now": now})
    return Accelerated(len(ids), len(results))


def change(batch_id: int, changes: Mapping[str, Any], *, by: Account, now: datetime) -> None:
    """Change `expire_at`, `meta`, `name`, `accelerate` or `accelerate_tail` of a batch.

    Raises `BatchNotReady` for one that is over, where only `name` and `meta` may change;
    `BadChange` for a moment that is past, a name that is none or another batch's, meta that cannot
    be kept, or a wish to be sent before all others where the project shares fairly.
    """
    if changes.get("accelerate") and not may_wish(by):
        msg = (
            "The project shares fairly: who goes before all others is staff's to say. "
            "Hint: leave accelerate out; accelerate_tail is for everybody."
        )
        raise BadChange(msg)
    columns = {name: value for name, value in changes.items() if name != "accelerate"}
    with transaction.atomic():
        batch = _lock(batch_id)
        if batch.state in (State.ABORTED, State.RETIRED) and changes.keys() - {"name", "meta"}:
            _refuse(batch, "nothing of it can be hurried or end", "change its name or meta alone")
        if (expire_at := changes.get("expire_at")) is not None and expire_at <= now:
            msg = f"{expire_at:%Y-%m-%d %H:%M:%S} UTC is past. Hint: abort it to end it now."
            raise BadChange(msg)
        if changes.get("accelerate") is not None:
            accelerate(batch_id, on=changes["accelerate"], now=now)
        words = NewBatch(name=changes.get("name"), meta=changes.get("meta", {}))
        if faults := new_workunits.batch_faults(words, now=now):
            raise BadChange(" ".join(map(str, faults)))
        try:
            with transaction.atomic():
                Batch.objects.filter(pk=batch_id).update(**columns)
        except IntegrityError:
            msg = f"There is a batch {changes['name']!r} already. Hint: choose another name."
            raise BadChange(msg) from None


def abort(batch_id: int, *, reason: str, now: datetime) -> cancel.Outcome:
    """Ask for all its workunits to be cancelled; the batch takes no more.

    Repeating it changes nothing.  Refuses a batch that is over in another way (`BatchNotReady`).
    """
    with transaction.atomic():
        batch = _lock(batch_id)
        if batch.state in (State.COMPLETE, State.RETIRED):
            _refuse(batch, "there is nothing to abort", "retire it to let its files go")
        Batch.objects.filter(pk=batch_id).update(state=State.ABORTED)
    return cancel.cancel_all_of(batch_id, reason=reason, now=now)


def set_expiry(batch_id: int, expire_at: datetime | None) -> None:
    """Let a batch expire at this moment, or never."""
    Batch.objects.filter(pk=batch_id).update(expire_at=expire_at)


def expire(*, now: datetime) -> int:
    """Give up open batches that are past their `expire_at`, and retire complete ones; how many.

    Source: BOINC's rule for the expiry of batches.  Each batch is ended by itself, and one call
    ends a hundred at the most.
    """
    due = Batch.objects.filter(
        expire_at__lte=now, state__in=(State.INIT, State.IN_PROGRESS, State.COMPLETE)
    )
    expired = due.order_by("expire_at", "id").values_list("id", flat=True)[:_AT_A_TIME]
    ended = 0
    for batch_id in list(expired):
        try:
            abort(batch_id, reason="its batch expired", now=now)
        except BatchNotReady:  # complete, perhaps only now
            retire(batch_id, now=now)
        ended += 1
    return ended


def complete(*, now: datetime) -> int:
    """Complete open batches whose workunits are all finished and assimilated; how many.

    Of aborted ones, which stay so, it is written down when that was.
    """
    with transaction.atomic():
        params = _states(now) | {"limit": _AT_A_TIME}
        rows = fetch("work/lock_batches_that_may_be_complete", params)
        # Asked again, now that no submission can add to them.
        return _complete([row["id"] for row in rows], now=now) if rows else 0


def _complete(batch_ids: list[int], *, now: datetime) -> int:
    return execute("work/complete_batches", _states(now) | {"batch_ids": batch_ids})


def _states(now: datetime) -> dict[str, Any]:
    return {
        "in_progress": State.IN_PROGRESS.value,
        "aborted": State.ABORTED.value,
        "complete": State.COMPLETE.value,
        "now": now,
    }


def retire(batch_id: int, *, now: datetime) -> int:
    """Put a batch that is over away, and let its files go; of how many workunits.

    Refuses one that is not over (`BatchNotReady`).  It is for good at once; should a crash end it
    before all files are let go, `finish` does the rest.  Repeating it changes nothing.
    """
    with transaction.atomic():
        batch = _lock(batch_id)
        # Its last workunit may have ended since the housekeeper looked.
        if batch.state == State.IN_PROGRESS and _complete([batch_id], now=now):
            batch.state = State.COMPLETE
        if batch.state not in (*_CLOSED, State.RETIRED):
            _refuse(batch, "cannot be retired", "wait for its end, or abort it")
        if batch.retired_at is not None:
            return 0
        Batch.objects.filter(pk=batch_id).update(state=State.RETIRED)
    return _let_outputs_go(batch_id, now=now)


def finish(*, now: datetime) -> int:
    """Go on where an abort or a retirement was cut short; how many workunits that touched."""
    touched = 0
    aborted = Batch.objects.filter(state=State.ABORTED, completed_at=None)
    for batch_id in list(aborted.order_by("id").values_list("id", flat=True)[:_AT_A_TIME]):
        reason = "its batch was aborted"
        touched += cancel.cancel_all_of(batch_id, reason=reason, now=now).changed
    retired = Batch.objects.filter(state=State.RETIRED, retired_at=None)
    for batch_id in list(retired.order_by("id").values_list("id", flat=True)[:_AT_A_TIME]):
        touched += _let_outputs_go(batch_id, now=now)
    return touched


def _let_outputs_go(batch_id: int, *, now: datetime) -> int:
    """Clear the flags that keep files and rows, chunk by chunk, then note that this is done."""
    after, total = 0, 0
    while True:
        params = {"batch_id": batch_id, "after_id": after, "limit": _CHUNK, "now": now}
        with transaction.atomic():
            rows = fetch("work/let_outputs_go", params)
            wakeups.after_commit("transitioner")
        total += len(rows)
        if len(rows) < _CHUNK:
            break
        after = max(row["id"] for row in rows)
    Batch.objects.filter(pk=batch_id, retired_at=None).update(retired_at=now)
    return total


def delete(batch_id: int) -> None:
    """Drop the row of a batch that is over and whose workunits are all purged.

    What became of its workunits stays in the archive.  Refuses others (`BatchNotReady`).
    """
    with transaction.atomic():
        batch = _lock(batch_id)
        if batch.state not in (State.COMPLETE, State.RETIRED):
            _refuse(batch, "cannot be deleted", "retire it first")
        if follower := Batch.objects.filter(after=batch_id).order_by("id").first():
            msg = f"Batch {follower.name!r} follows {batch.name!r}. Hint: delete that one first."
            raise BatchNotReady(msg)
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
