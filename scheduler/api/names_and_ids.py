"""Finds ids of rows by names in URLs, and names of rows by ids in URLs.

A handler gets the id of a workunit, batch or host, and the name of an app or queue, and checks the
caller's rights for it.  A name without a row gives `NO_ROW`, so that each operation answers it as
it answers an unknown id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.db.models import Q

from scheduler.api.authentication import has_right
from scheduler.api.http.body import INT8
from scheduler.api.http.problems import Problem
from scheduler.api.viewer import seen_hosts, viewer_of
from scheduler.models import App, Batch, Queue, Workunit
from scheduler.rights import Right

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from rest_framework.request import Request

    from scheduler.models import Host

#: An id that no row has.
NO_ROW: Final = 0
#: Maximum number of ids in the response for an ambiguous name.
_MAX_IDS: Final = 10


def is_id(text: str) -> bool:
    """Return whether the text consists of digits.

    >>> is_id("17"), is_id("17a"), is_id("-1")
    (True, False, False)
    """
    return text.isascii() and text.isdecimal()


def workunit_id(_request: Request, name: str) -> int:
    """Return the id of the workunit with this name, or `NO_ROW`."""
    # Without an order, because for ORDER BY id LIMIT 1 the planner may scan the primary key.
    ids = list(Workunit.objects.filter(name=name).values_list("pk", flat=True)[:1])
    return ids[0] if ids else NO_ROW


def batch_id(request: Request, name: str) -> int:
    """Return the id of the batch with this name, or `NO_ROW`; raise `Problem` (409) for several.

    Only staff see batches of several accounts, and so several of one name.
    """
    rows = Batch.objects.filter(name=name)
    viewer = viewer_of(request)
    if viewer is not None and not has_right(request, Right.MANAGE_OTHERS_BATCHES):
        rows = rows.filter(submitter=viewer)
    return _only_id(rows, "batches", name)


def host_id(request: Request, name: str) -> int:
    """Return the id of the host with this name, or `NO_ROW`; raise `Problem` (409) for several.

    Hosts that were merged into another are left out.
    """
    rows = seen_hosts(request).filter(domain_name=name, merged_into=None)
    return _only_id(rows, "hosts", name)


def app_name(_request: Request, text: str) -> str:
    """Return the name of the app with this name or else with this id, or the text."""
    return _name(App.objects.all(), text)


def queue_name(_request: Request, text: str) -> str:
    """Return the name of the queue with this name or else with this id, or the text."""
    return _name(Queue.objects.all(), text)


def _only_id(rows: QuerySet[Batch] | QuerySet[Host], noun: str, name: str) -> int:
    # Without an order, as above.
    ids = sorted(rows.order_by().values_list("pk", flat=True)[: _MAX_IDS + 1])
    if len(ids) <= 1:
        return ids[0] if ids else NO_ROW
    listed = ", ".join(str(row_id) for row_id in ids[:_MAX_IDS])
    listed += ", and more" if len(ids) > _MAX_IDS else ""
    msg = f"Several {noun} have the name {name[:100]!r}: {listed}."
    raise Problem(409, "ambiguous_name", msg, hint="send one of these ids instead of the name.")


def _name(rows: QuerySet[App] | QuerySet[Queue], text: str) -> str:
    """Return the name for a text of digits; a name of digits comes before an id."""
    number = int(text)
    by_id = number if number <= INT8 else NO_ROW
    names = set(rows.filter(Q(name=text) | Q(pk=by_id)).values_list("name", flat=True))
    return text if text in names or not names else names.pop()
