"""Submits failed workunits again, in their batch or without a batch.

Theory of operation.  A failed workunit stays failed.  A new one, with ``.2`` appended to its name,
is created in the same batch with the same inputs, outputs and settings.  The failed workunit stores
the id of the new one (`retried_as`), so that it is not retried twice and no longer counts as a
failure of its batch.  The batch is locked and reopened chunk by chunk.  Workunits without a batch
belong to the project, which has no quota and no share; their retries keep the priority.

Workunits with dependencies are retried last, in one transaction: the new ones wait for the same
workunits as the failed ones, or for the retries of these, which must exist before.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import astuple, dataclass
from datetime import datetime
from operator import add
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F

from scheduler import wakeups
from scheduler.lifecycle import (
    NOTHING,
    Actor,
    Axis,
    Because,
    ErrorMask,
    ReleaseState,
    WorkunitState,
)
from scheduler.models import Batch, Workunit
from scheduler.people import quotas
from scheduler.queues import admission
from scheduler.rights import Right
from scheduler.sql import fetch, fetch_one
from scheduler.work import dependencies
from scheduler.work.batches import BatchNotReady
from scheduler.work.control import WorkunitsNotFound
from scheduler.work.submission import new_batches, shares

State = Batch.State
_CHUNK = 1000


@dataclass(frozen=True, slots=True)
class Retried:
    """The number of workunits that were submitted again, and the numbers that were skipped.

    `cancelled` counts cancelled workunits, which are retried only if they are named.  `inputs_gone`
    counts workunits whose input files are deleted.  `names_taken` counts workunits whose new name
    another workunit already has.  `refused_by_queue` counts workunits whose queue no longer
    accepts their app or their infinite deadline.
    """

    count: int = 0
    cancelled: int = 0
    inputs_gone: int = 0
    names_taken: int = 0
    refused_by_queue: int = 0

    def __add__(self, other: Retried) -> Retried:
        return Retried(*map(add, astuple(self), astuple(other)))


def retry(batch_id: int | None, *, names: Collection[str] | None = None, now: datetime) -> Retried:
    """Submit the failed workunits of a batch again: those in `names`, or all that can be retried.

    If `batch_id` is None, these are workunits without a batch.  Each chunk is a transaction, and so
    are all workunits with dependencies.  After an error, a new call continues with the remaining
    workunits.  Raises `BatchNotReady` for an aborted or retired batch, `WorkunitsNotFound` for a
    name that no failed workunit of the batch has, `BatchRefused` if the batch follows a failed
    batch without `after_any`, and `quotas.QuotaExceeded`.
    """
    if names is not None:
        _require_failed(batch_id, names)
    submitter = None
    if batch_id is not None:
        submitter = Batch.objects.select_related("submitter").get(pk=batch_id).submitter
    after: int | None = 0
    total = Retried()
    while after is not None:
        with transaction.atomic():
            # Locked before the batch, in the order of a submission.
            quotas.lock(submitter)
            dependencies.lock_graph(submitter)
            some, after = _retry_some(_lock(batch_id), names, after, now)
        total += some
    with transaction.atomic():
        quotas.lock(submitter)
        dependencies.lock_graph(submitter)
        return total + _retry_graph(_lock(batch_id), names, now)


def _require_failed(batch_id: int | None, names: Collection[str]) -> None:
    named = Workunit.objects.filter(batch=batch_id, name__in=list(names))
    failed = set(named.exclude(error_mask=0).values_list("name", flat=True))
    if missing := sorted(set(names) - failed):
        raise WorkunitsNotFound([f"failed workunit {name}" for name in missing])


def _lock(batch_id: int | None) -> Batch | None:
    """Lock and return a batch; raises `BatchNotReady` if it is aborted or retired.

    Returns None for work without a batch, whose graph the caller has locked: concurrent retries
    wait for that lock, as those of a batch wait for the batch's.
    """
    if batch_id is None:
        return None
    batch = Batch.objects.select_for_update(no_key=True, of=("self",)).get(pk=batch_id)
    if batch.state in (State.ABORTED, State.RETIRED):
        state = str(batch.get_state_display()).lower()
        raise BatchNotReady(
            f"Batch {batch.name!r} is {state} and takes no more work. "
            "Hint: submit the failed workunits in a new batch."
        )
    return batch


def _retry_some(
    batch: Batch | None, names: Collection[str] | None, after: int, now: datetime
) -> tuple[Retried, int | None]:
    """Retry a chunk of workunits without dependencies; return the counts and the last id."""
    rows = _lock_failed(batch, names, after_id=after, are_joined=False, limit=_CHUNK)
    # A chunk may be short although more follow: the purger may drop a workunit meanwhile.
    return _retry(batch, rows, names, now), rows[-1]["id"] if rows else None


def _retry_graph(batch: Batch | None, names: Collection[str] | None, now: datetime) -> Retried:
    """Retry the workunits with dependencies.  Those that fail meanwhile are left out."""
    wanted = _selection(batch, names)
    locked = {row["id"] for row in fetch("work/lock_failed_graph", wanted)}
    if not locked:
        return Retried()
    rows = _lock_failed(batch, names, after_id=0, are_joined=True, limit=None)
    return _retry(batch, [row for row in rows if row["id"] in locked], names, now)


def _lock_failed(
    batch: Batch | None,
    names: Collection[str] | None,
    *,
    after_id: int,
    are_joined: bool,
    limit: int | None,
) -> list[dict[str, Any]]:
    params = {"after_id": after_id, "are_joined": are_joined, "limit": limit}
    return fetch("work/lock_failed", params | _selection(batch, names))


def _selection(batch: Batch | None, names: Collection[str] | None) -> dict[str, Any]:
    return {
        "batch_id": None if batch is None else batch.pk,
        "names": None if names is None else sorted(names),
    }


def _retry(
    batch: Batch | None, rows: list[dict[str, Any]], names: Collection[str] | None, now: datetime
) -> Retried:
    """Submit locked workunits again, except for those that `Retried` counts as skipped."""
    queues = admission.lock_for_work({r["queue_id"] for r in rows} - {None})
    stopped, gone, refused, wanted = [], [], [], []
    for row in rows:
        queue = None if row["queue_id"] is None else queues[row["queue_id"]]
        if names is None and row["error_mask"] & ErrorMask.CANCELLED:
            stopped.append(row)
        elif row["inputs_gone"]:
            gone.append(row)
        elif queue and not queue.accepts(app=row["app_id"], delay_bound=row["delay_bound"]):
            refused.append(row)
        else:
            wanted.append(row)
    created = _create(batch, wanted, now) if wanted else 0
    return Retried(created, len(stopped), len(gone), len(wanted) - created, len(refused))


def _create(batch: Batch | None, wanted: list[dict[str, Any]], now: datetime) -> int:
    submitter = None if batch is None else batch.submitter
    quotas.require_workunits(submitter, len(wanted))
    waits = (
        batch is not None
        and batch.after_id is not None
        and new_batches.waits(batch.after_id, batch.submitter, after_any=batch.after_any)
    )
    drawn = (
        fetch_one("work/submission/draw_workunit_ids", {"count": len(wanted), "queue_ids": []})
        or {}
    )
    priorities: list[int | None] = [None] * len(wanted)
    if (
        settings.PROJECT.fair_share
        and submitter is not None
        and not submitter.has_right(Right.EXCEED_SUBMISSION_LIMITS)
    ):
        clock = shares.ShareClock(submitter, now=now)
        priorities = list(clock.assign([row["operations"] for row in wanted]))
        clock.save()
    created = fetch(
        "work/retry_workunits",
        {
            "ids": [row["id"] for row in wanted],
            "new_ids": list(drawn["ids"]),
            "priorities": priorities,
            "waits": waits,
            "outputs_kept": batch is not None and batch.keep_outputs,
            "inactive": ReleaseState.INACTIVE.value,
            "released": ReleaseState.RELEASED.value,
            "now": now,
            "axis": Axis.WORKUNIT.value,
            "nothing": NOTHING,
            "open": WorkunitState.OPEN.value,
            "submitted": Because.SUBMITTED.value,
            "submitter": Actor.SUBMITTER.value,
        },
    )
    if children := [row["id"] for row in wanted if row["has_parents"]]:
        dependencies.copy_to_retries(children, now=now)
    if batch is not None:
        Batch.objects.filter(pk=batch.pk).update(
            state=State.IN_PROGRESS,
            completed_at=None,
            let_go_at=None,
            tail_at=None,
            workunits_submitted=F("workunits_submitted") + len(created),
        )
    wakeups.after_commit("transitioner")
    return len(created)
