"""Workunits over the API: where each is, and how it came there."""

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
    """By what `meta` contains, in the words of the index that serves it."""

    def filter(self, qs: Any, value: Any) -> Any:
        """Filter by containment; what is no JSON object is refused."""
        return submitted.containing(qs, read_meta(value)) if value else qs


class WorkunitFilters(Filters):
    """Which workunits to list."""

    batch = Id(field_name="batch_id")
    app = Name(field_name="app__name")
    status = Word(words=[one.value for one in Status])
    name = Name()
    meta = IndexedMeta()


#: Filters that an index serves: what they find is read at once, whosever the rest is.
_LED_BY = {"batch", "name", "meta"}


class Workunits(Submissions):
    """The workunits of whoever asks; of all, for who administers."""

    queryset = Workunit.objects.none()
    filterset_class = WorkunitFilters

    def read_page(self, rows: Any, beyond: Q, order: str, count: int) -> list[Any]:
        """Read a page past other people's rows, unless an index leads to what is asked for."""
        return own_page(self.request, rows, beyond, order, count, batch="batch", led_by=_LED_BY)

    @operation(
        "List workunits", name="list_workunits", tag="workunits", answer=WorkunitBrief, listed=True
    )
    def get(self, request: Request) -> Response:
        """The newest first."""
        rows = self.filter_queryset(submitted.workunits(None, now=self.now))
        page = [describe.workunit(one) for one in self.paginate_queryset(rows) or []]
        return self.get_paginated_response(WorkunitBrief(page, many=True).data)


class OneWorkunit(Endpoint):
    """A workunit."""

    @operation(
        "Show a workunit",
        name="read_workunit",
        tag="workunits",
        answer=WorkunitShown,
        conditional=True,
    )
    def get(self, request: Request, workunit_id: int) -> Response:
        """What it was given, and its results."""
        rows = submitted.workunits(viewer_of(request), now=self.now)
        one = get_object_or_404(submitted.with_inputs(rows), pk=workunit_id)
        return Response(WorkunitShown(describe.whole_workunit(one)).data)


class WorkunitTimeline(Endpoint):
    """How a workunit came where it is."""

    @operation(
        "Tell a workunit's story",
        name="read_workunit_timeline",
        tag="workunits",
        answer=TimelineShown,
    )
    def get(self, request: Request, workunit_id: int) -> Response:
        """Its moves and those of its results, the oldest first, and what it waits for."""
        rows = submitted.workunits(viewer_of(request), now=self.now)
        one = get_object_or_404(rows, pk=workunit_id)
        told = explain.explanation_of_workunit(one.pk, now=self.now)
        return Response(TimelineShown(asdict(told)).data)


urlpatterns = [
    path("workunits", Workunits.as_view()),
    path("workunits/<id:workunit_id>", OneWorkunit.as_view()),
    path("workunits/<id:workunit_id>/timeline", WorkunitTimeline.as_view()),
]
