"""Whose things may be seen: one's own, or, by who administers, everybody's."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, cast

from scheduler.api.authentication import Scope, may
from scheduler.api.paging import read_page
from scheduler.queries import own_pages

if TYPE_CHECKING:
    from django.db.models import Q, QuerySet
    from rest_framework.request import Request

    from scheduler.models import Account


def viewer_of(request: Request) -> Account | None:
    """Whose things may be seen; None: everybody's."""
    return None if may(request, Scope.ADMINISTER) else cast("Account", request.user)


def own_page(
    request: Request,
    rows: QuerySet[Any],
    beyond: Q,
    order: str,
    count: int,
    *,
    batch: str,
    led_by: Collection[str],
) -> list[Any]:
    """Read a page of everybody's filtered `rows`: of those that may be seen, by `own_pages`.

    If the request filters by a parameter of `led_by`, in the plain way.
    """
    viewer = viewer_of(request)
    if viewer is not None and not any(request.query_params.get(name) for name in led_by):
        return own_pages.page(rows, viewer, batch=batch, beyond=beyond, order=order, count=count)
    if viewer is not None:
        rows = rows.filter(**{f"{batch}__submitter": viewer})
    return read_page(rows, beyond, order, count)
