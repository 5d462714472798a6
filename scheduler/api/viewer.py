"""Whose things may be seen and changed: one's own, or, with a right, everybody's."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, cast

from scheduler.api.authentication import Scope, has_right, may, missing
from scheduler.api.paging import read_page
from scheduler.policy.roles import Right
from scheduler.queries import own_pages

if TYPE_CHECKING:
    from django.db.models import Q, QuerySet
    from rest_framework.request import Request

    from scheduler.models import Account


def viewer_of(request: Request) -> Account | None:
    """Return the account whose things may be seen; None if everybody's may.

    The right `view_everything` comes through a token of scope `manage` or `administer`.
    """
    if has_right(request, Right.VIEW_EVERYTHING):
        return None
    return cast("Account", request.user)


def changer_of(request: Request) -> Account | None:
    """Return the account whose batches may be changed; None if everybody's may.

    One's own are changed with scope `submit`, those of others with scope `manage` and the right.
    Raises `PermissionDenied` for a token of neither.
    """
    if has_right(request, Right.MANAGE_OTHERS_BATCHES):
        return None
    if not may(request, Scope.SUBMIT):
        raise missing(request, Scope.SUBMIT)
    return cast("Account", request.user)


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
