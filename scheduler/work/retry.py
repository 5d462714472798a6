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
from django.db.models import F, QuerySet

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
    named_ids = None if names is None else _named_ids(batch_id, names)
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
            some, after = _retry_some(_lock(batch_id), named_ids, after, now)
        total += some
    with transaction.atomic():
        quotas.lock(submitter)
        dependencies.lock_graph(submitter)
        return total + _retry_graph(_lock(batch_id), named_ids, now)


def _named_ids(batch_id: int | None, names: Collection[str]) -> list[int]:
    """Return the ids of the failed workunits with these names, ascending."""
    named = Workunit.objects.filter(batch=batch_id, name__in=list(names)).exclude(error_mask=0)
    ids = dict(named.order_by("id").values_list("name", "id"))
    if missing := sorted(set(names) - ids.keys()):
        raise WorkunitsNotFound([f"failed workunit {name}" for name in missing])
    return list(ids.values())


def _failed_ids(batch: Batch | None, **conditions: Any) -> QuerySet[Workunit, int]:
    failed = Workunit.objects.filter(batch=batch, retried_as=None, **conditions)
    return failed.exclude(error_mask=0).order_by("id").values_list("id", flat=True)


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
    batch: Batch | None, named_ids: list[int] | None, after: int, now: datetime
) -> tuple[Retried, int | None]:
    """Retry a chunk of workunits without dependencies; return the counts and the last id."""
    if named_ids is None:
        ids = list(_failed_ids(batch, id__gt=after)[:_CHUNK])
    else:
        ids = [id_ for id_ in named_ids if id_ > after][:_CHUNK]
    rows = fetch("work/lock_failed", {"ids": ids, "are_joined": False}) if ids else []
    done = _retry(batch, rows, now, with_cancelled=named_ids is not None)
    return done, ids[-1] if len(ids) == _CHUNK else None


def _retry_graph(batch: Batch | None, named_ids: list[int] | None, now: datetime) -> Retried:
    """Retry the workunits with dependencies.  Those that fail meanwhile are left out."""
    ids = list(_failed_ids(batch, has_parents=True)) if named_ids is None else named_ids
    locked = {row["id"] for row in fetch("work/lock_failed_graph", {"ids": ids})} if ids else set()
    if not locked:
        return Retried()
    rows = fetch("work/lock_failed", {"ids": ids, "are_joined": True})
    return _retry(batch, rows, now, with_cancelled=named_ids is not None)


def _retry(
    batch: Batch | None, rows: list[dict[str, Any]], now: datetime, *, with_cancelled: bool
) -> Retried:
    """Submit locked workunits again, except for those that `Retried` counts as skipped."""
    queues = admission.lock_for_work({r["queue_id"] for r in rows} - {None})
    stopped, gone, refused, wanted = [], [], [], []
    for row in rows:
        queue = None if row["queue_id"] is None else queues[row["queue_id"]]
        if not with_cancelled and row["error_mask"] & ErrorMask.CANCELLED:
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
