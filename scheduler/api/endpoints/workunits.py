"""Workunits: list and read them, with their timelines."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.shortcuts import get_object_or_404
from django.urls import path
from rest_framework.response import Response

from scheduler.api import describe
from scheduler.api.endpoints.submissions import Submissions
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.filters import Filters, Id, Meta, Name, Word, read_meta
from scheduler.api.http.operation import operation
from scheduler.api.shown import TimelineShown, WorkunitBrief, WorkunitShown
from scheduler.api.viewer import own_page, viewer_of
from scheduler.models import Workunit
from scheduler.work import explain, submitted
from scheduler.work.rules.statuses import Status

if TYPE_CHECKING:
    from rest_framework.request import Request


class IndexedMeta(Meta):
    """Filters by contents of `meta`, with the expression that the index supports."""

    def filter(self, qs: Any, value: Any) -> Any:
        """Filter by containment; refuses a value that is not a JSON object."""
        return submitted.containing(qs, read_meta(value)) if value else qs


class WorkunitFilters(Filters):
    """Filters of the list of workunits."""

    batch = Id(field_name="batch_id")
    app = Name(field_name="app__name")
    status = Word(words=[status.value for status in Status])
    name = Name()
    meta = IndexedMeta()


#: Filters with an index: rows that match are read directly, not account by account.
_INDEXED_FILTERS = {"batch", "name", "meta"}


class Workunits(Submissions):
    """The caller's workunits; those of all accounts for callers that may view everything."""

    queryset = Workunit.objects.none()
    filterset_class = WorkunitFilters

    def read_page(self, rows: Any, beyond: Q, order: str, count: int) -> list[Any]:
        """Read a page of the rows that the caller may see, by `viewer.own_page`."""
        return own_page(
            self.request,
            rows,
            beyond,
            order,
            count,
            batch="batch",
            indexed_filters=_INDEXED_FILTERS,
        )

    @operation(
        "List workunits", name="list_workunits", tag="workunits", answer=WorkunitBrief, listed=True
    )
    def get(self, request: Request) -> Response:
        """Newest first."""
        rows = self.filter_queryset(submitted.workunits(None, now=self.now))
        page = [describe.workunit(row) for row in self.paginate_queryset(rows) or []]
        return self.get_paginated_response(WorkunitBrief(page, many=True).data)


class OneWorkunit(Endpoint):
    """A workunit."""

    @operation(
        "Read a workunit",
        name="read_workunit",
        tag="workunits",
        answer=WorkunitShown,
        conditional=True,
    )
    def get(self, request: Request, workunit_id: int) -> Response:
        """One workunit, with its parameters, input files, outputs and results."""
        rows = submitted.workunits(viewer_of(request), now=self.now)
        row = get_object_or_404(submitted.with_inputs(rows), pk=workunit_id)
        return Response(WorkunitShown(describe.whole_workunit(row)).data)


class WorkunitTimeline(Endpoint):
    """The history of a workunit."""

    @operation(
        "Read the timeline of a workunit",
        name="read_workunit_timeline",
        tag="workunits",
        answer=TimelineShown,
    )
    def get(self, request: Request, workunit_id: int) -> Response:
        """State changes of the workunit and its results, oldest first, and what it waits for."""
        rows = submitted.workunits(viewer_of(request), now=self.now)
        row = get_object_or_404(rows, pk=workunit_id)
        explanation = explain.explanation_of_workunit(row.pk, now=self.now)
        return Response(TimelineShown(asdict(explanation)).data)


urlpatterns = [
    path("workunits", Workunits.as_view()),
    path("workunits/<id:workunit_id>", OneWorkunit.as_view()),
    path("workunits/<id:workunit_id>/timeline", WorkunitTimeline.as_view()),
]
