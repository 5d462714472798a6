"""Let batches go when the one they follow is over, or fail with it.

Theory of operation.  The workunits of a batch that follows another are born inactive, with a count
of one.  Once that one is over, the housekeeper lets them go chunk by chunk: the count becomes
nought, or the moment of the failure is written down; the transitioner, woken, makes the move.  Each
chunk is a transaction, which locks the predecessor and asks again how it ended, for somebody may
have submitted more to it, and looks for those that still wait: a crash leaves a batch without
`let_go_at`, and the next look goes on.  Chains fail from one to the next, since a batch that fails
is over in its turn.  A submission locks both batches: whoever is born waiting is there before the
predecessor can be over, or takes `let_go_at` back.
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
#: How many batches one call looks at, and how many workunits one transaction touches.
_AT_A_TIME = 100
_CHUNK = 5000


def settle(*, now: datetime) -> int:
    """Let all batches go, or fail, whose predecessors are over; how many workunits."""
    params = {
        "over": [State.COMPLETE.value, State.RETIRED.value],
        "aborted": State.ABORTED.value,
        "limit": _AT_A_TIME,
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
            rows = fetch("work/let_followers_go", {**chunk, "is_failed": is_failed, "now": now})
            if rows:
                wakeups.after_commit("transitioner")
        total += len(rows)
        if len(rows) < _CHUNK:
            break
        after = max(row["id"] for row in rows)
    with transaction.atomic():
        # A submission that adds to it holds its row; what that brought is seen afterwards.
        Batch.objects.select_for_update(no_key=True).get(pk=follower["id"])
        execute("work/close_follower", {"batch_id": follower["id"], "now": now})
    return total


def _has_failed(follower: dict[str, Any]) -> bool | None:
    """Lock the predecessor; whether its failure is the follower's, None while it is not over."""
    row = fetch_one("work/lock_predecessor", {"id": follower["after_id"]})
    if row is None:
        return None
    is_aborted, after_any = row["state"] == State.ABORTED, follower["after_any"]
    if new_batches.is_running(row["state"], row["completed_at"]) and (after_any or not is_aborted):
        return None
    return not after_any and (is_aborted or row["failed"])
