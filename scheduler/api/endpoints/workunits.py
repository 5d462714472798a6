"""Endpoints that list and read workunits and their timelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.shortcuts import get_object_or_404

from scheduler.api.endpoints.submissions import Submissions
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.filters import Filters, Id, Meta, Name, Word, read_meta
from scheduler.api.http.openapi_operation import operation
from scheduler.api.shown import TimelineShown, WorkunitBrief, WorkunitShown
from scheduler.api.viewer import OwnPages, viewer_of
from scheduler.work import explain, submitted
from scheduler.work.rules.statuses import Status

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response


class IndexedMeta(Meta):
    """Filters by contents of `meta`, with the expression that has an index."""

    def filter(self, qs: Any, value: Any) -> Any:
        """Return rows whose `meta` contains `value`; raise `ValidationError` for invalid JSON."""
        return submitted.containing(qs, read_meta(value)) if value else qs


class WorkunitFilters(Filters):
    batch = Id(field_name="batch_id")
    app = Name(field_name="app__name")
    status = Word(words=[status.value for status in Status])
    name = Name()
    meta = IndexedMeta()


class Workunits(OwnPages, Submissions):
    """The workunits that the caller may see."""

    filterset_class = WorkunitFilters
    batch_lookup = "batch"
    indexed_filters = ("batch", "name", "meta")

    @operation("List workunits", name="list_workunits", answer=WorkunitBrief, listed=True)
    def get(self, request: Request) -> Response:
        """Returns workunits, newest first.

        These are the caller's workunits, or all workunits for callers who may view everything.
        """
        return self.page(submitted.workunits(None, now=self.now))


class OneWorkunit(Endpoint):
    @operation("Read a workunit", name="read_workunit", answer=WorkunitShown, conditional=True)
    def get(self, request: Request, workunit_id: int) -> Response:
        """Returns the workunit with its parameters, input files, outputs and results."""
        rows = submitted.workunits(viewer_of(request), now=self.now)
        return self.reply(get_object_or_404(submitted.with_inputs(rows), pk=workunit_id))


class WorkunitTimeline(Endpoint):
    @operation(
        "Read the timeline of a workunit", name="read_workunit_timeline", answer=TimelineShown
    )
    def get(self, request: Request, workunit_id: int) -> Response:
        """Returns the state changes of the workunit and its results, oldest first.

        `reasons` explains the current state.
        """
        rows = submitted.workunits(viewer_of(request), now=self.now)
        row = get_object_or_404(rows, pk=workunit_id)
        return self.reply(explain.explanation_of_workunit(row.pk, now=self.now))
