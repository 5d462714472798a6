"""The accounts whose rows a caller may see and change: their own, or all."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, cast

from scheduler.api.authentication import Scope, has_right, may, missing
from scheduler.api.http.paging import read_page
from scheduler.people import own_pages
from scheduler.rights import Right

if TYPE_CHECKING:
    from django.db.models import Q, QuerySet
    from rest_framework.request import Request

    from scheduler.models import Account


def viewer_of(request: Request) -> Account | None:
    """Return the account whose rows may be seen; None for all accounts.

    All accounts need the right `view_everything`, and scope `manage` or `administer`.
    """
    if has_right(request, Right.VIEW_EVERYTHING):
        return None
    return cast("Account", request.user)


def changer_of(request: Request) -> Account | None:
    """Return the account whose batches may be changed; None for all accounts.

    The account's own need scope `submit`, those of others scope `manage` and the right.
    Raises `PermissionDenied` for a token with neither scope.
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
