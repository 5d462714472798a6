"""Results: list and read them."""

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
    """Filters by a state, which is stored in two columns."""

    def filter(self, qs: Any, value: Any) -> Any:
        if not value:
            return qs
        state = RESULT_STATES[value]
        return qs.filter(server_state=state.server_state, outcome=state.outcome)


class ResultFilters(Filters):
    """Filters of the list of results."""

    batch = Id(field_name="workunit__batch_id")
    workunit = Id(field_name="workunit_id")
    state = ByState(words=list(RESULT_STATES))


#: Filters with an index: rows that match are read directly, not account by account.
_INDEXED_FILTERS = {"batch", "workunit"}


class Results(Endpoint):
    """The caller's results; those of all accounts for callers that may view everything."""

    queryset = Result.objects.none()
    filterset_class = ResultFilters

    def read_page(self, rows: Any, beyond: Q, order: str, count: int) -> list[Any]:
        """Read a page of the rows that the caller may see, by `viewer.own_page`."""
        return own_page(
            self.request,
            rows,
            beyond,
            order,
            count,
            batch="workunit__batch",
            indexed_filters=_INDEXED_FILTERS,
        )

    @operation("List results", name="list_results", tag="results", answer=ResultShown, listed=True)
    def get(self, request: Request) -> Response:
        """Newest first, without the standard error output."""
        rows = self.filter_queryset(submitted.results(None).defer("stderr"))
        page = [describe.result(row) for row in self.paginate_queryset(rows) or []]
        return self.get_paginated_response(ResultShown(page, many=True).data)


class OneResult(Endpoint):
    """A result."""

    @operation(
        "Read a result",
        name="read_result",
        tag="results",
        answer=ResultWithStderr,
        conditional=True,
    )
    def get(self, request: Request, result_id: int) -> Response:
        """One result, with its output files and its standard error output."""
        row = get_object_or_404(submitted.results(viewer_of(request)), pk=result_id)
        fields = describe.result(row) | {"stderr": row.stderr}
        return Response(ResultWithStderr(fields).data)


urlpatterns = [
    path("results", Results.as_view()),
    path("results/<id:result_id>", OneResult.as_view()),
]
