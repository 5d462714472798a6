"""Slots: the rows that permit results in progress of queues with a limit.

Theory of operation.  A queue with a limit of N has N slots.  A claim locks a free slot for each
result that it sends, skips slots that other claims have locked, and stores the result in the slot;
the transaction that ends the result frees the slot.  So any number of claims run at once without a
counter that all must lock, and none exceeds the limit.

Claims hold a shared lock on each of their queues, which they only try to get.  A change of the
limit takes the exclusive lock: running claims are finished, and new ones skip the queue until the
change is committed.  Afterwards a claim that judged by the old settings sends nothing, because the
version of the row differs (`dispatch/claim_results`).

If the limit is lowered below the number of results in progress, their slots remain above the limit.
While such a slot exists, no slot of the queue is free.  `balance` moves the slots in use to the
lowest numbers, so that the queue is open again once fewer results than the limit are in progress.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from scheduler import sql
from scheduler.models import Queue
from scheduler.queues.facts import QueueFacts
from scheduler.queues.rules.serving import WaitingQueue

#: Free slots are counted up to this number per queue, more than one claim sends.
MAX_COUNTED = 1000


class SlotTaken(RuntimeError):
    """A locked slot is not free.  Hint: find the writer that takes slots without a lock."""


def all_queues() -> dict[int, QueueFacts]:
    """Return the settings of every queue by id."""
    queues: dict[int, QueueFacts] = {}
    for row in sql.fetch("queues/read_queues", {}):
        fields: dict[str, Any] = {
            name: frozenset(value) if isinstance(value, list) else value
            for name, value in row.items()
        }
        queues[row["id"]] = QueueFacts(**fields)
    return queues


def waiting_queues(*, seen_since: datetime, queue_id: int | None = None) -> list[WaitingQueue]:
    """Return the queues with unsent results, or only one queue if it has unsent results.

    Hosts are active if they were seen after `seen_since`.
    """
    params = {"seen_since": seen_since, "queue_id": queue_id}
    return sql.fetch_into(WaitingQueue, "queues/read_standstills", params)


def free_slots(queues: Iterable[QueueFacts]) -> dict[int, int]:
    """Return the number of free slots of each queue with a limit, at most `MAX_COUNTED`.

    The slots are not locked.  A queue with slots above its limit has no free slot.  It is balanced
    first if fewer results than the limit are in progress.
    """
    capped = {queue.id: queue for queue in queues if queue.max_in_progress}
    if not capped:
        return {}
    rows = _count_free(capped.values())
    fitting = [row["queue_id"] for row in rows if row["fits"]]
    if [queue_id for queue_id in fitting if balance(queue_id, waits=False)]:
        rows = _count_free(capped.values())
    return {row["queue_id"]: 0 if row["is_crowded"] else row["free_slots"] for row in rows}


def _count_free(queues: Collection[QueueFacts]) -> list[dict[str, int]]:
    return sql.fetch(
        "queues/read_free_slots",
        {
            "queue_ids": [queue.id for queue in queues],
            "limits": [queue.max_in_progress for queue in queues],
            "most": MAX_COUNTED,
        },
    )


def lock_free(wanted: Mapping[int, int], queues: Mapping[int, QueueFacts]) -> dict[int, list[int]]:
    """Lock free slots and return their ids by queue, at most the wanted number of each queue."""
    rows = sql.fetch(
        "queues/lock_slots",
        {
            "queue_ids": list(wanted),
            "limits": [queues[queue_id].max_in_progress for queue_id in wanted],
            "wanted": list(wanted.values()),
        },
    )
    slots: dict[int, list[int]] = {queue_id: [] for queue_id in wanted}
    for row in rows:
        slots[row["queue_id"]].append(row["id"])
    return slots


def take(result_by_slot: Mapping[int, int]) -> None:
    """Store results in the slots that this transaction has locked."""
    if not result_by_slot:
        return
    params = {"slot_ids": list(result_by_slot), "result_ids": list(result_by_slot.values())}
    if sql.execute("queues/take_slots", params) != len(result_by_slot):
        raise SlotTaken(f"Of the slots {list(result_by_slot)[:10]}, some are not free.")


def free(result_ids: Sequence[int]) -> None:
    """Free the slots of results that this transaction has ended; nothing without results."""
    if result_ids:
        sql.execute("queues/free_slots", {"result_ids": list(result_ids)})


def lock_queue(queue_id: int, *, waits: bool = True) -> bool:
    """Lock a queue against claims until the transaction ends; return whether it is locked.

    With `waits`, running claims of the queue are awaited.  Call this before any row is locked.
    """
    row = sql.fetch_one("queues/lock_queue", {"queue_id": queue_id, "waits": waits})
    return bool(row and row["locked"])


def balance(queue_id: int, *, waits: bool = True) -> bool:
    """Adapt the slots of a queue to its limit and its results in progress.

    Runs in the caller's transaction.  Returns whether the queue was locked; without `waits`, a
    queue with running claims is left alone.
    """
    if not lock_queue(queue_id, waits=waits):
        return False
    # A later statement than the lock, so that it sees what the last holder committed.
    limit = Queue.objects.filter(pk=queue_id).values_list("max_in_progress", flat=True).first()
    params = {"queue_id": queue_id, "limit": limit or 0}
    if limit is None:
        sql.execute("queues/free_stale_slots", params)
        sql.execute("queues/drop_free_slots", params)
        return True
    for statement in (
        "queues/free_stale_slots",
        "queues/adopt_results",
        "queues/drop_free_slots",
        "queues/renumber_slots",
        "queues/add_slots",
    ):
        sql.execute(statement, params)
    return True


def balance_all(*, now: datetime) -> int:  # noqa: ARG001  the signature of a chore
    """Balance every queue whose slots differ from its limit; return the number of queues.

    This repairs what an interrupted or late transaction left; claims do not depend on it.
    """
    rows = sql.fetch("queues/read_unbalanced_queues", {})
    for row in rows:
        with transaction.atomic():
            balance(row["id"])
    return len(rows)
