"""Determines whether a caller may see or change all rows or only their own rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from scheduler.api.authentication import has_right, may, missing_scope
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Scope
from scheduler.api.http.paging import read_page
from scheduler.models import Host
from scheduler.people import own_pages
from scheduler.rights import Right

if TYPE_CHECKING:
    from django.db.models import Q, QuerySet
    from rest_framework.request import Request

    from scheduler.models import Account


def viewer_of(request: Request) -> Account | None:
    """Return the account whose rows the caller may see, or None for all accounts.

    To see all accounts, the caller needs the right `view_everything` and a token with scope
    `manage` or `administer`.
    """
    if has_right(request, Right.VIEW_EVERYTHING):
        return None
    return cast("Account", request.user)


def seen_hosts(request: Request) -> QuerySet[Host]:
    """Return the hosts that the caller may see."""
    viewer = viewer_of(request)
    return Host.objects.all() if viewer is None else Host.objects.filter(account=viewer)


def changer_of(request: Request) -> Account | None:
    """Return the account whose batches the caller may change, or None for all accounts.

    Changing the caller's own batches needs scope `submit`.  Changing batches of other accounts
    needs scope `manage` and the right `manage_others_batches`.  Raises `PermissionDenied` for a
    token with neither scope.
    """
    if has_right(request, Right.MANAGE_OTHERS_BATCHES):
        return None
    if not may(request, Scope.SUBMIT):
        raise missing_scope(request, Scope.SUBMIT)
    return cast("Account", request.user)


class OwnPages(Endpoint):
    """A list of rows that belong to batches, limited to rows that the caller may see.

    `batch_lookup` is the lookup from a row to its batch.  `indexed_filters` are the selective
    filters that use an index.  If the caller may see only their own rows and the request has none
    of these filters, the page is read by `own_pages`.
    """

    batch_lookup: ClassVar[str]
    indexed_filters: ClassVar[Sequence[str]]

    def read_page(self, rows: Any, beyond: Q, order: str, count: int) -> list[Any]:
        """Return a page of the rows that the caller may see; `ById` passes the filtered rows."""
        viewer, batch = viewer_of(self.request), self.batch_lookup
        if viewer is None:
            return read_page(rows, beyond, order, count)
        if any(self.request.query_params.get(name) for name in self.indexed_filters):
            rows = rows.filter(**{f"{batch}__submitter": viewer})
            return read_page(rows, beyond, order, count)
        return own_pages.page(rows, viewer, batch=batch, beyond=beyond, order=order, count=count)
