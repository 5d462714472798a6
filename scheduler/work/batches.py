"""Accelerates, changes, aborts, expires, completes, retires and deletes batches.

Theory of operation.  A batch is locked before its workunits, and the workunits before their
results, as in a submission.  Aborting a batch requests the cancellation of its workunits
(`work.control`); the transitioner makes the moves.  Operations on all workunits of a batch first
change the state of the batch, then process the workunits in chunks, with one transaction per chunk.
After a crash between chunks, `completed_at` or `retired_at` of the batch is still NULL, and the
housekeeper continues the operation (`finish`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from scheduler import wakeups
from scheduler.models import Account, Batch, Workunit
from scheduler.sql import execute, fetch
from scheduler.work import control
from scheduler.work.rules.batch_tails import is_tail
from scheduler.work.submission.facts import NewBatch
from scheduler.work.submission.rules import new_workunits
from scheduler.work.submission.submission_checks import may_set_priority

#: Added to the priorities of an accelerated batch; with fair share, a unit is a second: 11 days.
ACCELERATION = 1_000_000
#: Maximum number of batches that one call completes, expires or finishes.
_MAX_BATCHES = 100
#: Number of workunits that one transaction changes.
_CHUNK = 5000

State = Batch.State
_CLOSED = (State.COMPLETE, State.ABORTED)


class BatchNotReady(ValueError):
    """The batch is in the wrong state for this operation. Hint: see the message."""


class BadChange(ValueError):
    """The change of a batch is invalid. Hint: see the message."""


@dataclass(frozen=True, slots=True)
class Accelerated:
    """The numbers of workunits and unsent results whose priority changed."""

    workunits: int
    results: int


def accelerate(batch_id: int, *, on: bool = True, now: datetime) -> Accelerated:
    """Raise the priorities of a batch's unfinished workunits and unsent results.

    The priorities are raised by `ACCELERATION`, so that these results are sent first.  With
    `on=False`, an earlier acceleration is undone.  New results of a workunit inherit its priority.
    Results in progress continue.  Idempotent.  Raises `BatchNotReady` for a batch that is complete,
    aborted or retired.
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


def accelerate_tails(*, now: datetime) -> int:
    """Accelerate batches with `accelerate_tail` that have reached their tail.

    Returns the number of workunits whose priority was raised.
    """
    raised = 0
    for row in fetch("work/read_tails", {"in_progress": State.IN_PROGRESS.value}):
        percent = settings.PROJECT.tail_percent
        if is_tail(total=row["total"], left=row["still_open"], percent=percent):
            with suppress(BatchNotReady):  # the batch has ended in the meantime
                raised += accelerate(row["id"], now=now).workunits
                Batch.objects.filter(pk=row["id"]).update(tail_at=now)
    return raised


def change(batch_id: int, changes: Mapping[str, Any], *, by: Account, now: datetime) -> None:
    """Change `expire_at`, `meta`, `name`, `accelerate` or `accelerate_tail` of a batch.

    Of an aborted or retired batch, only `name` and `meta` can be changed, and a complete batch
    cannot be accelerated: such changes raise `BatchNotReady`.  Raises `BadChange` for an expiry in
    the past, a name that is invalid or taken, meta that cannot be stored, or `accelerate` by an
    account that may not set priorities (fair share).
    """
    if changes.get("accelerate") and not may_set_priority(by):
        raise BadChange(
            "The project uses fair share: only staff may accelerate a batch. "
            "Hint: leave accelerate out; accelerate_tail is available to everyone."
        )
    columns = {name: value for name, value in changes.items() if name != "accelerate"}
    with transaction.atomic():
        batch = _lock(batch_id)
        if batch.state in (State.ABORTED, State.RETIRED) and changes.keys() - {"name", "meta"}:
            _refuse(batch, "cannot be accelerated or expire", "change only its name or meta")
        if (expire_at := changes.get("expire_at")) is not None and expire_at <= now:
            msg = f"expire_at ({expire_at:%Y-%m-%d %H:%M:%S} UTC) is past."
            raise BadChange(f"{msg} Hint: abort the batch to end it now.")
        if changes.get("accelerate") is not None:
            accelerate(batch_id, on=changes["accelerate"], now=now)
        checked = NewBatch(name=changes.get("name"), meta=changes.get("meta", {}))
        if faults := new_workunits.batch_faults(checked, now=now):
            raise BadChange(" ".join(map(str, faults)))
        try:
            with transaction.atomic():
                Batch.objects.filter(pk=batch_id).update(**columns)
        except IntegrityError:
            msg = f"There is a batch {changes['name']!r} already. Hint: choose another name."
            raise BadChange(msg) from None


def abort(batch_id: int, *, reason: str, now: datetime) -> control.Outcome:
    """Request the cancellation of all workunits of a batch, and close the batch for new workunits.

    Idempotent.  Raises `BatchNotReady` for a complete or retired batch.
    """
    with transaction.atomic():
        batch = _lock(batch_id)
        if batch.state in (State.COMPLETE, State.RETIRED):
            _refuse(batch, "there is nothing to abort", "retire it to release its files")
        Batch.objects.filter(pk=batch_id).update(state=State.ABORTED)
    return control.cancel_all_of(batch_id, reason=reason, now=now)


def set_expiry(batch_id: int, expire_at: datetime | None) -> None:
    """Set the time when a batch expires; with None, it never expires."""
    Batch.objects.filter(pk=batch_id).update(expire_at=expire_at)


def expire(*, now: datetime) -> int:
    """Abort open batches and retire complete batches that are past their `expire_at`.

    Returns the number of these batches, at most `_MAX_BATCHES`.  No transaction covers more than
    one batch.  Source: BOINC's rule for the expiry of batches.
    """
    due = Batch.objects.filter(
        expire_at__lte=now, state__in=(State.INIT, State.IN_PROGRESS, State.COMPLETE)
    )
    expired = due.order_by("expire_at", "id").values_list("id", flat=True)[:_MAX_BATCHES]
    ended = 0
    for batch_id in list(expired):
        try:
            abort(batch_id, reason="its batch expired", now=now)
        except BatchNotReady:  # the batch is complete, perhaps only since the query
            retire(batch_id, now=now)
        ended += 1
    return ended


def complete(*, now: datetime) -> int:
    """Complete open batches whose workunits are all finished and assimilated.

    An aborted batch whose workunits are all assimilated gets a `completed_at`, but stays aborted.
    Returns the number of batches of both kinds.
    """
    with transaction.atomic():
        params = _states(now) | {"limit": _MAX_BATCHES}
        rows = fetch("work/lock_batches_that_may_be_complete", params)
        # Check again under the lock, which keeps submissions from adding workunits.
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
    """Retire a batch that is over, and release the outputs that are kept for its submitter.

    Returns the number of workunits whose outputs were released.  Raises `BatchNotReady` if the
    batch is not over.  The state change is permanent and immediate.  If a crash interrupts the
    release of the outputs, `finish` completes the release.  Idempotent.
    """
    with transaction.atomic():
        batch = _lock(batch_id)
        # The last workunit may have ended since the housekeeper's last check.
        if batch.state == State.IN_PROGRESS and _complete([batch_id], now=now):
            batch.state = State.COMPLETE
        if batch.state not in (*_CLOSED, State.RETIRED):
            _refuse(batch, "cannot be retired", "wait for its end, or abort it")
        if batch.retired_at is not None:
            return 0
        Batch.objects.filter(pk=batch_id).update(state=State.RETIRED)
    return _release_outputs(batch_id, now=now)


def finish(*, now: datetime) -> int:
    """Complete interrupted aborts and retirements; return the number of changed workunits."""
    changed = 0
    aborted = Batch.objects.filter(state=State.ABORTED, completed_at=None)
    for batch_id in list(aborted.order_by("id").values_list("id", flat=True)[:_MAX_BATCHES]):
        reason = "its batch was aborted"
        changed += control.cancel_all_of(batch_id, reason=reason, now=now).changed
    retired = Batch.objects.filter(state=State.RETIRED, retired_at=None)
    for batch_id in list(retired.order_by("id").values_list("id", flat=True)[:_MAX_BATCHES]):
        changed += _release_outputs(batch_id, now=now)
    return changed


def _release_outputs(batch_id: int, *, now: datetime) -> int:
    """Clear `outputs_kept` of the workunits, chunk by chunk, then set `retired_at`."""
    after, total = 0, 0
    while True:
        params = {"batch_id": batch_id, "after_id": after, "limit": _CHUNK, "now": now}
        with transaction.atomic():
            rows = fetch("work/release_outputs", params)
            wakeups.after_commit("transitioner")
        total += len(rows)
        if len(rows) < _CHUNK:
            break
        after = max(row["id"] for row in rows)
    Batch.objects.filter(pk=batch_id, retired_at=None).update(retired_at=now)
    return total


def delete(batch_id: int) -> None:
    """Delete the row of a complete or retired batch whose workunits are all purged.

    The archive keeps the workunits.  Raises `BatchNotReady` if the batch is in another state, has
    workunits, or is followed by another batch.
    """
    with transaction.atomic():
        batch = _lock(batch_id)
        if batch.state not in (State.COMPLETE, State.RETIRED):
            _refuse(batch, "cannot be deleted", "retire it first")
        if follower := Batch.objects.filter(after=batch_id).order_by("id").first():
            msg = f"Batch {follower.name!r} follows {batch.name!r}."
            raise BatchNotReady(f"{msg} Hint: delete {follower.name!r} first.")
        remaining = Workunit.objects.filter(batch_id=batch_id).count()
        if remaining:
            raise BatchNotReady(
                f"Batch {batch.name!r} still has {remaining} workunits. "
                "Hint: wait until the purger has archived them."
            )
        batch.delete()


def _lock(batch_id: int) -> Batch:
    return Batch.objects.select_for_update(no_key=True).get(pk=batch_id)


def _refuse(batch: Batch, what: str, hint: str) -> None:
    state = str(batch.get_state_display()).lower()
    raise BatchNotReady(f"Batch {batch.name!r} is {state} and {what}. Hint: {hint}.")
