"""Releases batches whose predecessor is over, or makes them fail if it failed.

Theory of operation.  The workunits of a batch that follows another are created inactive, with a
dependency count of one and with `waits_for_batch`.  When the predecessor is over, the housekeeper
releases them chunk by chunk: it clears `waits_for_batch`, or records the time of the failure, and
wakes the transitioner, which makes the move.  Each chunk is a transaction that locks the
predecessor, reads its state again, since more work may have been submitted to it, and selects
workunits that are not released yet.  After a crash, `let_go_at` of the batch is still NULL, and the
next call continues.  Failures propagate along a chain of batches, since a failed batch is over.  A
submission locks both batches: either its waiting workunits are committed before the predecessor can
be over, or the submission resets `let_go_at`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction

from scheduler import wakeups
from scheduler.models import Batch
from scheduler.sql import execute, fetch, fetch_one
from scheduler.work.submission import new_batches

State = Batch.State
#: Number of batches that one call reads, and of workunits that one transaction changes.
_MAX_BATCHES = 100
_CHUNK = 5000


def settle(*, now: datetime) -> int:
    """Release the workunits of batches whose predecessors are over, or make them fail.

    Returns the number of these workunits.  Each call handles at most `_MAX_BATCHES` batches.
    """
    params = {
        "over": [State.COMPLETE.value, State.RETIRED.value],
        "aborted": State.ABORTED.value,
        "limit": _MAX_BATCHES,
    }
    return sum(_settle(row, now=now) for row in fetch("work/read_followers", params))


def _settle(follower: dict[str, Any], *, now: datetime) -> int:
    after, total = 0, 0
    while True:
        chunk = {"batch_id": follower["id"], "after_id": after, "limit": _CHUNK}
        with transaction.atomic():
            is_failed = _has_failed(follower)
            if is_failed is None:
                return total
            rows = fetch("work/release_followers", {**chunk, "is_failed": is_failed, "now": now})
            if rows:
                wakeups.after_commit("transitioner")
        total += len(rows)
        if len(rows) < _CHUNK:
            break
        after = max(row["id"] for row in rows)
    with transaction.atomic():
        # The lock waits for submissions to this batch, so that the statement sees their workunits.
        Batch.objects.select_for_update(no_key=True).get(pk=follower["id"])
        execute("work/close_follower", {"batch_id": follower["id"], "now": now})
    return total


def _has_failed(follower: dict[str, Any]) -> bool | None:
    """Lock the predecessor; return whether the follower must fail, or None if it must wait."""
    row = fetch_one("work/lock_predecessor", {"id": follower["after_id"]})
    if row is None:
        return None
    is_aborted, after_any = row["state"] == State.ABORTED, follower["after_any"]
    if new_batches.is_running(row["state"], row["completed_at"]) and (after_any or not is_aborted):
        return None
    return not after_any and (is_aborted or row["failed"])
