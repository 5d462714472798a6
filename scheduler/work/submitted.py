"""Reads what somebody has submitted: his batches, their workunits, their results.

Whoever asks sees his own; None of `viewer` sees all.  A batch is its submitter's, what is in it
too; a workunit without a batch is the project's.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db.models import Prefetch, Q, QuerySet

from scheduler.models import Account, Batch, Result, ResultFile, Workunit, WorkunitFile
from scheduler.work.progress import status


def batches(viewer: Account | None) -> QuerySet[Batch]:
    """His batches."""
    found = Batch.objects.select_related("app", "submitter")
    return found if viewer is None else found.filter(submitter=viewer)


def workunits(viewer: Account | None, *, now: datetime) -> QuerySet[Workunit]:
    """His workunits, each with its `status`, without what is in them."""
    found = Workunit.objects.select_related("app", "batch").annotate(status=status(now))
    return found if viewer is None else found.filter(batch__submitter=viewer)


def results(viewer: Account | None) -> QuerySet[Result]:
    """The results of his workunits, with their outputs."""
    found = Result.objects.select_related("workunit", "app_version").prefetch_related(
        Prefetch("output_files", ResultFile.objects.order_by("result_id", "position"))
    )
    return found if viewer is None else found.filter(workunit__batch__submitter=viewer)


def with_inputs(workunits: QuerySet[Workunit]) -> QuerySet[Workunit]:
    """The same, with their input files and results."""
    inputs = WorkunitFile.objects.select_related("file").order_by("workunit_id", "position")
    attempts = Result.objects.order_by("workunit_id", "id").defer("stderr")
    return workunits.prefetch_related(
        Prefetch("input_files", inputs), Prefetch("results", attempts)
    )


def not_theirs(
    viewer: Account | None, *, ids: Collection[int], names: Collection[str]
) -> list[str]:
    """Which of these workunits he has not: names, and ids with a hash before them."""
    rows = Workunit.objects.filter(Q(pk__in=ids) | Q(name__in=names))
    if viewer is not None:
        rows = rows.filter(batch__submitter=viewer)
    found = list(rows.values_list("pk", "name"))
    missing_ids = sorted(set(ids) - {pk for pk, _ in found})
    return sorted(set(names) - {name for _, name in found}) + [f"#{pk}" for pk in missing_ids]


def containing(rows: QuerySet[Any], meta: dict[str, Any]) -> QuerySet[Any]:
    """Those whose meta contains this; in the words of the index that serves it."""
    return rows.exclude(meta={}).filter(meta__contains=meta) if meta else rows
