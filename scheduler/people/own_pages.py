"""Reads pages of one's own rows, at a cost that other people's rows do not raise.

Theory of operation.  Rows are in the order of their ids, and whose they are is a column of their
batch: walking the ids until a page is full passes over everybody else's rows.  So a page is looked
for twice.  First among a few of the next rows of all people, for whoever has most of them has his
page at once.  If that is not enough, each of his batches is asked for its next ids by an index, and
the first of all these are the page.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import BigIntegerField, F, Func, Model, OuterRef, Q, QuerySet

from scheduler.models import Account, Batch

#: So many rows of all people are looked at first, for each row of a page.
NEAR: Final = 10
Row = TypeVar("Row", bound=Model)


class _Each(Func):
    function = "unnest"
    set_returning = True
    output_field = BigIntegerField()


def page(
    rows: QuerySet[Row],
    viewer: Account,
    *,
    batch: str,
    beyond: Q,
    order: str,
    count: int,
) -> list[Row]:
    """The first `count` of somebody's rows `beyond` a place, by id ("pk" or "-pk").

    `rows` are filtered as he wishes, and are of everybody; `batch` is the way from a row to its
    batch, ``workunit__batch``.  One statement if he has most of the rows, else two.
    """
    near = rows.model._default_manager.filter(beyond).order_by(order).values("pk")
    found = _read(rows, viewer, near[: NEAR * count], batch, order, count)
    return (
        found
        if len(found) == count
        else _read(
            rows,
            viewer,
            _of_each_batch(rows, viewer, batch, beyond, order, count),
            batch,
            order,
            count,
        )
    )


def _of_each_batch(
    rows: QuerySet[Any], viewer: Account, batch: str, beyond: Q, order: str, count: int
) -> QuerySet[Any, Any]:
    """The ids: the first of each of his batches, and of these the first."""
    # An index has the rows of a batch by id, or those of its workunits: then no index of ids helps,
    # and the planner must not hope to meet them on a walk through everybody's.
    by_id = F("pk") if batch == "batch" else F("pk") + 0
    turned = by_id.desc() if order.startswith("-") else by_id.asc()
    its = rows.filter(beyond, **{batch: OuterRef("pk")}).order_by(turned).values("pk")[:count]
    each = Batch.objects.filter(submitter=viewer).values(row_id=_Each(ArraySubquery(its)))
    return each.order_by(order.replace("pk", "row_id"))[:count]


def _read(
    rows: QuerySet[Row],
    viewer: Account,
    ids: QuerySet[Any, Any],
    batch: str,
    order: str,
    count: int,
) -> list[Row]:
    his = rows.filter(pk__in=ids, **{f"{batch}__submitter": viewer})
    return list(his.order_by(order)[:count])
