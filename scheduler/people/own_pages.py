"""Reads pages of an account's rows without reading all rows of other accounts.

Theory of operation.  Pages are sorted by row id, but the owner is a column of the batch.  A scan by
id until the page is full could read the rows of all other accounts.  Therefore, a page is read in
at most two steps:

1. Read a limited number of the next rows of all accounts.  This fills the page of an account that
   owns most rows.
2. If the page is not full, read the next ids of each batch of the account with an index scan, and
   merge these ids.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import BigIntegerField, F, Func, Model, OuterRef, Q, QuerySet

from scheduler.models import Account, Batch

#: Number of rows of all accounts that the first step reads per row of a page.
SCANNED_PER_ROW: Final = 10
Row = TypeVar("Row", bound=Model)


class _Each(Func):
    function = "unnest"
    set_returning = True
    output_field = BigIntegerField()


def page(
    rows: QuerySet[Row], viewer: Account, *, batch: str, beyond: Q, order: str, count: int
) -> list[Row]:
    """Return the viewer's first `count` rows that match `beyond`, sorted by `order`.

    `rows` are the filtered rows of all accounts, and `beyond` is the condition for the rows after
    the previous page.  `order` is "pk" or "-pk".  `batch` is the lookup from a row to its batch,
    such as ``workunit__batch``.  Executes one statement if the first step fills the page, else two.
    """
    near = rows.model._default_manager.filter(beyond).order_by(order).values("pk")
    page_rows = _read(rows, viewer, near[: SCANNED_PER_ROW * count], batch, order, count)
    if len(page_rows) < count:
        ids = _of_each_batch(rows, viewer, batch, beyond, order, count)
        page_rows = _read(rows, viewer, ids, batch, order, count)
    return page_rows


def _of_each_batch(
    rows: QuerySet[Any], viewer: Account, batch: str, beyond: Q, order: str, count: int
) -> QuerySet[Any, Any]:
    """Return the first `count` matching ids of the viewer's batches, read batch by batch."""
    # An index sorts the rows of a batch, or of its workunits, by id.  For rows of workunits the
    # sort key refers to the batch, which prevents plans that sort or scan all accounts' rows first.
    by_id = F("pk") if batch == "batch" else F("pk") + F(f"{batch}_id") * 0
    ordering = by_id.desc() if order.startswith("-") else by_id.asc()
    batch_ids = (
        rows.filter(beyond, **{batch: OuterRef("pk")}).order_by(ordering).values("pk")[:count]
    )
    ids = Batch.objects.filter(submitter=viewer).values(row_id=_Each(ArraySubquery(batch_ids)))
    return ids.order_by(order.replace("pk", "row_id"))[:count]


def _read(
    rows: QuerySet[Row],
    viewer: Account,
    ids: QuerySet[Any, Any],
    batch: str,
    order: str,
    count: int,
) -> list[Row]:
    own_rows = rows.filter(pk__in=ids, **{f"{batch}__submitter": viewer})
    return list(own_rows.order_by(order)[:count])
