"""Endpoints of workunits: lists, timelines and dependencies."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.http import Http404
from django.shortcuts import get_object_or_404
from rest_framework import serializers

from scheduler.api.endpoints.submissions import Submissions
from scheduler.api.history_shown import (
    ExecutionShown,
    HistoryShown,
    ResultStatisticsShown,
    RoundsShown,
)
from scheduler.api.http.body import INT8, Shown, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.filters import Filters, Id, Meta, Name, Word, read_meta
from scheduler.api.http.openapi_operation import Scope, operation
from scheduler.api.http.problems import Problem
from scheduler.api.search import fields
from scheduler.api.search.filters import Search
from scheduler.api.shown import TimelineShown, WorkunitBrief, WorkunitShown
from scheduler.api.viewer import OwnPages, changer_of, viewer_of
from scheduler.work import attempt_history, dependencies, explain, submitted
from scheduler.work.rules.statuses import Status

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response


_MAX_CONTINUATIONS = 10_000


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
    filter = Search(fields=fields.WORKUNITS)


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


class _OfWorkunit(Endpoint):
    """An endpoint below a workunit."""

    def own_id(self, workunit_id: int) -> int:
        """Return the id of a workunit that the caller may see; raise Http404 otherwise."""
        rows = submitted.workunits(viewer_of(self.request), now=self.now)
        return get_object_or_404(rows, pk=workunit_id).pk


class WorkunitRounds(_OfWorkunit):
    @operation("Read the rounds of a workunit", name="read_workunit_rounds", answer=RoundsShown)
    def get(self, request: Request, workunit_id: int) -> Response:
        """Returns the state, the counters and the times of each round of the workunit.

        The text of an output is empty if it was deleted or has more than 64 KiB.
        """
        return self.reply(attempt_history.rounds_of(self.own_id(workunit_id)))


class WorkunitHistory(_OfWorkunit):
    @operation("Read the history of a workunit", name="read_workunit_history", answer=HistoryShown)
    def get(self, request: Request, workunit_id: int) -> Response:
        """Returns the attempts that were sent to hosts, with their newest usage samples."""
        return self.reply(attempt_history.history_of(self.own_id(workunit_id), now=self.now))


class WorkunitCurrentHistory(_OfWorkunit):
    @operation(
        "Read the current attempt at a workunit",
        name="read_workunit_current_history",
        answer=ExecutionShown,
    )
    def get(self, request: Request, workunit_id: int) -> Response:
        """Returns the attempt that was sent last; 404 if none was sent."""
        try:
            execution = attempt_history.current_execution(self.own_id(workunit_id), now=self.now)
        except attempt_history.NeverSent as never:
            raise Http404 from never
        return self.reply(execution)


class WorkunitStatistics(_OfWorkunit):
    @operation(
        "Read the statistics of a workunit",
        name="read_workunit_statistics",
        answer=ResultStatisticsShown,
    )
    def get(self, request: Request, workunit_id: int) -> Response:
        """Returns figures of the results of the workunit."""
        return self.reply(attempt_history.statistics_of(self.own_id(workunit_id), of="workunit_id"))


class Continuations(Strict):
    """The workunits that wait, or no longer wait, for a workunit: their `ids` and `names`.

    `continuation` is the name of a single workunit.
    """

    ids = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=INT8),
        required=False,
        max_length=_MAX_CONTINUATIONS,
    )
    names = serializers.ListField(
        child=serializers.CharField(max_length=200), required=False, max_length=_MAX_CONTINUATIONS
    )
    continuation = serializers.CharField(required=False, max_length=200)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Add `references`; raise `Problem` (422) if no workunit is named."""
        single = [attrs["continuation"]] if "continuation" in attrs else []
        references = [*attrs.get("ids", []), *attrs.get("names", []), *single]
        if not references:
            msg = "The request names no workunits. Hint: send ids, names or a continuation."
            raise Problem(422, "nothing_named", msg)
        return attrs | {"references": references}


class ContinuationsChanged(Shown):
    """The numbers of dependencies that were changed, and the continuations of the workunit."""

    changed = serializers.IntegerField()
    already = serializers.IntegerField(help_text="Number of dependencies that existed before.")
    continuations = serializers.ListField(
        child=serializers.IntegerField(), help_text="Ids of all workunits that wait for this one."
    )


_continuations_operation = partial(
    operation,
    or_scope=Scope.MANAGE,
    answer=ContinuationsChanged,
    body=Continuations,
    problems=(404, 409),
)


class AddContinuations(Endpoint):
    @_continuations_operation("Add continuations", name="add_continuations")
    def post(self, request: Request, workunit_id: int) -> Response:
        """Makes other workunits of the same submitter wait for this one; all of them, or none.

        A continuation must still wait: a workunit that was released, or that has ended, is refused
        (409), as is a cycle. A repeated call has no effect.
        """
        _require_own(request, workunit_id)
        names = self.body()["references"]
        return self.reply(dependencies.add_continuations(workunit_id, names, now=self.now))


class AddContinuation(AddContinuations):
    @_continuations_operation("Add a continuation", name="add_continuation")
    def post(self, request: Request, workunit_id: int) -> Response:
        """Does the same as `add_continuations`."""
        return super().post(request, workunit_id)


class RemoveContinuations(Endpoint):
    @_continuations_operation("Remove continuations", name="remove_continuations")
    def post(self, request: Request, workunit_id: int) -> Response:
        """Makes workunits no longer wait for this one; all of them, or none.

        A workunit without further dependencies is released. A workunit that is no continuation is
        refused (409).
        """
        _require_own(request, workunit_id)
        names = self.body()["references"]
        return self.reply(dependencies.remove_continuations(workunit_id, names, now=self.now))


class RemoveContinuation(RemoveContinuations):
    @_continuations_operation("Remove a continuation", name="remove_continuation")
    def post(self, request: Request, workunit_id: int) -> Response:
        """Does the same as `remove_continuations`."""
        return super().post(request, workunit_id)


def _require_own(request: Request, workunit_id: int) -> None:
    if submitted.not_owned(changer_of(request), ids=[workunit_id], names=[]):
        raise Http404
