"""Results over the API: what each attempt came to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.shortcuts import get_object_or_404
from django.urls import path
from rest_framework.response import Response

from scheduler.api import describe
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.filters import Filters, Id, Word
from scheduler.api.http.operation import operation
from scheduler.api.shown import RESULT_STATES, ResultShown, ResultWithStderr
from scheduler.api.viewer import own_page, viewer_of
from scheduler.models import Result
from scheduler.work import submitted

if TYPE_CHECKING:
    from rest_framework.request import Request


class ByState(Word):
    """By a state, which is two columns."""

    def filter(self, qs: Any, value: Any) -> Any:
        """Filter by both."""
        if not value:
            return qs
        state = RESULT_STATES[value]
        return qs.filter(server_state=state.server_state, outcome=state.outcome)


class ResultFilters(Filters):
    """Which results to list."""

    batch = Id(field_name="workunit__batch_id")
    workunit = Id(field_name="workunit_id")
    state = ByState(words=list(RESULT_STATES))


#: Filters that an index serves: what they find is read at once, whosever the rest is.
_LED_BY = {"batch", "workunit"}


class Results(Endpoint):
    """The results of whoever asks; all, for who administers."""

    queryset = Result.objects.none()
    filterset_class = ResultFilters

    def read_page(self, rows: Any, beyond: Q, order: str, count: int) -> list[Any]:
        """Read a page past other people's rows, unless an index leads to what is asked for."""
        way = "workunit__batch"
        return own_page(self.request, rows, beyond, order, count, batch=way, led_by=_LED_BY)

    @operation("List results", name="list_results", tag="results", answer=ResultShown, listed=True)
    def get(self, request: Request) -> Response:
        """The newest first."""
        rows = self.filter_queryset(submitted.results(None).defer("stderr"))
        page = [describe.result(one) for one in self.paginate_queryset(rows) or []]
        return self.get_paginated_response(ResultShown(page, many=True).data)


class OneResult(Endpoint):
    """A result."""

    @operation(
        "Show a result",
        name="read_result",
        tag="results",
        answer=ResultWithStderr,
        conditional=True,
    )
    def get(self, request: Request, result_id: int) -> Response:
        """With its outputs, and what it wrote to stderr."""
        one = get_object_or_404(submitted.results(viewer_of(request)), pk=result_id)
        told = describe.result(one) | {"stderr": one.stderr}
        return Response(ResultWithStderr(told).data)


urlpatterns = [
    path("results", Results.as_view()),
    path("results/<id:result_id>", OneResult.as_view()),
]
