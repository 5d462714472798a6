"""Endpoints that list and read results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.shortcuts import get_object_or_404

from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.filters import Filters, Id, Word
from scheduler.api.http.openapi_operation import operation
from scheduler.api.search import fields
from scheduler.api.search.filters import Search
from scheduler.api.shown import RESULT_STATES, ResultShown, ResultWithStderr
from scheduler.api.viewer import OwnPages, viewer_of
from scheduler.work import submitted

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response


class ByState(Word):
    """Filters by the state of a result, which is stored in two columns."""

    def filter(self, qs: Any, value: Any) -> Any:
        if not value:
            return qs
        state = RESULT_STATES[value]
        return qs.filter(server_state=state.server_state, outcome=state.outcome)


class ResultFilters(Filters):
    batch = Id(field_name="workunit__batch_id")
    workunit = Id(field_name="workunit_id")
    state = ByState(words=list(RESULT_STATES))
    filter = Search(fields=fields.RESULTS)


class Results(OwnPages):
    """The results that the caller may see."""

    filterset_class = ResultFilters
    batch_lookup = "workunit__batch"
    indexed_filters = ("batch", "workunit")

    @operation("List results", name="list_results", answer=ResultShown, listed=True)
    def get(self, request: Request) -> Response:
        """Returns results without their standard error output, newest first.

        These are the results of the caller's batches, or all results for callers who may view
        everything.
        """
        return self.page(submitted.results(None).defer("stderr", "stdout"))


class OneResult(Endpoint):
    @operation("Read a result", name="read_result", answer=ResultWithStderr, conditional=True)
    def get(self, request: Request, result_id: int) -> Response:
        """Returns the result with its output files and its standard error output."""
        return self.reply(get_object_or_404(submitted.results(viewer_of(request)), pk=result_id))
