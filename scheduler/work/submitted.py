"""Reads the batches, workunits and results that a viewer may see.

A batch and its contents belong to its submitter, and a workunit without a batch to the project.
Functions return the rows that belong to the account `viewer`, or all rows if it is None.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef, Prefetch, Q, QuerySet, Subquery

from scheduler.models import (
    Account,
    Batch,
    Dependency,
    LedgerEntry,
    Result,
    ResultFile,
    Workunit,
    WorkunitFile,
)
from scheduler.work.progress import status

#: Maximum number of workunits of a graph.
MAX_GRAPH = 2000


def batches(viewer: Account | None) -> QuerySet[Batch]:
    """Return the batches of `viewer`, or all batches if it is None."""
    rows = Batch.objects.select_related("app", "submitter")
    return rows if viewer is None else rows.filter(submitter=viewer)


def workunits(viewer: Account | None, *, now: datetime) -> QuerySet[Workunit]:
    """Return the viewer's workunits, with the annotation `status`."""
    rows = Workunit.objects.select_related("app", "batch").annotate(status=status(now))
    return rows if viewer is None else rows.filter(batch__submitter=viewer)


def results(viewer: Account | None) -> QuerySet[Result]:
    """Return the results of the viewer's workunits, with their output files prefetched."""
    rows = Result.objects.select_related("workunit", "app_version").prefetch_related(
        Prefetch("output_files", ResultFile.objects.order_by("result_id", "position"))
    )
    return rows if viewer is None else rows.filter(workunit__batch__submitter=viewer)


def with_inputs(workunits: QuerySet[Workunit]) -> QuerySet[Workunit]:
    """Return the workunits with their queues, and their input files and results prefetched.

    The annotations `parent_ids` and `child_ids` are the ends of their dependencies.  `modified_at`
    is the time of the newest move of the workunit or of one of its results, None without a ledger.
    """
    behind = Dependency.objects.filter(parent_id=OuterRef("pk")).order_by("child_id")
    # The order of the index `timeline_of_workunit`.
    moves = LedgerEntry.objects.filter(workunit_id=OuterRef("pk")).order_by("-workunit_id", "-id")
    workunits = workunits.annotate(
        parent_ids=_parent_ids(),
        child_ids=ArraySubquery(behind.values("child_id")),
        modified_at=Subquery(moves.values("at")[:1]),
    )
    inputs = WorkunitFile.objects.select_related("file").order_by("workunit_id", "position")
    attempts = Result.objects.order_by("workunit_id", "id").defer("stderr", "stdout")
    return workunits.select_related("queue").prefetch_related(
        Prefetch("input_files", inputs), Prefetch("results", attempts)
    )


def graph_of(batch_id: int, *, now: datetime) -> dict[str, Any]:
    """Return the first `MAX_GRAPH` workunits of a batch, and the number of further workunits.

    The annotation `parent_ids` is the ids of the workunits for which a workunit waits.
    """
    rows = Workunit.objects.filter(batch_id=batch_id).order_by("pk")
    shown = rows.annotate(status=status(now), parent_ids=_parent_ids())
    nodes = list(shown.only("id", "name", "is_group")[:MAX_GRAPH])
    more = rows.count() - MAX_GRAPH if len(nodes) == MAX_GRAPH else 0
    return {"workunits": nodes, "left_out": max(0, more)}


def _parent_ids() -> ArraySubquery:
    edges = Dependency.objects.filter(child_id=OuterRef("pk")).order_by("parent_id")
    return ArraySubquery(edges.values("parent_id"))


def not_owned(viewer: Account | None, *, ids: Collection[int], names: Collection[str]) -> list[str]:
    """Return the names, and the ids as "#ID", of workunits that are missing or not the viewer's."""
    rows = Workunit.objects.filter(Q(pk__in=ids) | Q(name__in=names))
    if viewer is not None:
        rows = rows.filter(batch__submitter=viewer)
    visible = list(rows.values_list("pk", "name"))
    missing_ids = sorted(set(ids) - {pk for pk, _ in visible})
    return sorted(set(names) - {name for _, name in visible}) + [f"#{pk}" for pk in missing_ids]


def containing(rows: QuerySet[Any], meta: dict[str, Any]) -> QuerySet[Any]:
    """Return the rows whose meta contains `meta`, or all rows if `meta` is empty."""
    return rows.exclude(meta={}).filter(meta__contains=meta) if meta else rows
