"""Fixes the app, the trust and the name of a queue while workunits enter it.

Theory of operation.  `Queue.app` and `Queue.trusted` decide which workunits a queue accepts.  A
transaction that inserts workunits locks the rows of their queues FOR KEY SHARE, as the foreign keys
do later, and judges the workunits by what the rows contain then.  A change that accepts fewer
workunits locks the row FOR UPDATE, which excludes such transactions, and reads the workunits of the
queue in a later statement.

The change does not wait for running submissions, because these can take minutes, in which the queue
would send nothing: it is refused.  Submissions wait for the change, which waits for nothing after
it has got this lock.

A new name and a deletion need the same lock, because PostgreSQL itself locks the row against
foreign keys for them; they are refused too instead of waiting.
"""

from __future__ import annotations

from collections.abc import Collection

from scheduler import sql
from scheduler.queues.rules.accepted_work import Admission


class QueueBusy(ValueError):
    """A submission or a retry inserts workunits into the queue.  Hint: try again later."""


def lock_for_work(queue_ids: Collection[int]) -> dict[int, Admission]:
    """Lock queues until the transaction ends, so that they accept the same workunits until then.

    Returns what the queues accept; deleted queues are missing.  Without queues, no statement is
    run.
    """
    if not queue_ids:
        return {}
    rows = sql.fetch("queues/lock_for_work", {"queue_ids": sorted(queue_ids)})
    return {row["id"]: Admission(row["app_id"], row["trusted"]) for row in rows}


def lock_against_work(queue_id: int, name: str) -> None:
    """Lock a queue against `lock_for_work` until the transaction ends; raises `QueueBusy`."""
    if not sql.fetch("queues/lock_against_work", {"queue_id": queue_id}):
        raise QueueBusy(
            f"Workunits are being submitted to queue {name}. "
            "Hint: try again when the submission is finished."
        )
