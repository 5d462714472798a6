"""Endpoints that create, list, read, change, abort, retire and retry batches."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from django.shortcuts import get_object_or_404
from rest_framework import serializers
from rest_framework.response import Response

from scheduler.api.http.body import INT4, INT8, JsonObject, Shown, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.filters import Filters, Meta, Name, Word
from scheduler.api.http.openapi_operation import Scope, operation
from scheduler.api.http.problems import Problem
from scheduler.api.search import fields
from scheduler.api.search.filters import Search
from scheduler.api.shown import BATCH_STATES, BatchShown, ProgressNow, TroublesShown
from scheduler.api.viewer import changer_of, viewer_of
from scheduler.health import standstill
from scheduler.models import App, Batch
from scheduler.people import submitters
from scheduler.work import batches, last_error, progress, retry, submitted
from scheduler.work.control import WorkunitsNotFound
from scheduler.work.rules.statuses import Status
from scheduler.work.submission import new_batches
from scheduler.work.submission.facts import NewBatch
from scheduler.work.submission.rules import bundling

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import QuerySet
    from rest_framework.request import Request


class BatchFilters(Filters):
    app = Name(field_name="app__name")
    state = Word(words=BATCH_STATES)
    name = Name()
    meta = Meta()
    filter = Search(fields=fields.BATCHES)


class BatchFields(Strict):
    """Fields that can be set when a batch is created, and changed later."""

    name = serializers.CharField(required=False, max_length=250)
    expire_at = serializers.DateTimeField(required=False, allow_null=True)
    accelerate_tail = serializers.BooleanField(required=False)
    meta = JsonObject(required=False)


class BatchWanted(BatchFields):
    """The fields of a new, empty batch. `after` is the id of a batch that must finish first."""

    app = serializers.CharField(max_length=60)
    after = serializers.IntegerField(required=False, allow_null=True, min_value=0, max_value=INT8)
    after_any = serializers.BooleanField(required=False)
    expires_in_seconds = serializers.IntegerField(required=False, min_value=1, max_value=INT4)
    priority = serializers.IntegerField(
        required=False, allow_null=True, min_value=-INT4, max_value=INT4
    )
    bundle_size = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=bundling.MAX_MEMBERS,
        help_text="Send the workunits in task lists of at most this many workunits.",
    )
    bundle_duration_seconds = serializers.FloatField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=INT4,
        help_text="Send the workunits in task lists of at most this expected run time.",
    )
    keep_outputs = serializers.BooleanField(
        default=True, help_text="Keep the outputs until the batch is retired."
    )


class BatchChanged(BatchFields):
    """The fields to change; omitted fields keep their values."""

    accelerate = serializers.BooleanField(required=False)


class Reason(Strict):
    """An optional reason."""

    reason = serializers.CharField(required=False, allow_blank=True, max_length=200, default="")


class Nothing(Strict):
    """A body without fields, which can be omitted."""


class RetryWanted(Strict):
    """Names of the failed workunits to retry; by default, all that were not cancelled."""

    workunits = serializers.ListField(
        child=serializers.CharField(max_length=200), required=False, min_length=1, max_length=10000
    )


class Cancelled(Shown):
    """Numbers of workunits by the outcome of a cancellation."""

    cancelled = serializers.IntegerField(
        source="changed", help_text="Number of workunits that this request cancelled."
    )
    already = serializers.IntegerField(help_text="Number of workunits that were cancelled earlier.")
    finished = serializers.IntegerField(help_text="Number of workunits that were already finished.")


class RetiredOut(Shown):
    """The number of workunits whose outputs were released for deletion."""

    let_go = serializers.IntegerField()


class RetriedOut(Shown):
    """The number of resubmitted workunits (`count`), and the numbers of skipped workunits."""

    count = serializers.IntegerField()
    cancelled = serializers.IntegerField(
        help_text="Number of workunits skipped because they were cancelled. They are retried only "
        "if `workunits` contains their names."
    )
    inputs_gone = serializers.IntegerField(
        help_text="Number of workunits skipped because their input files were deleted."
    )
    names_taken = serializers.IntegerField(
        help_text="Number of workunits skipped because another workunit has the new name."
    )
    refused_by_queue = serializers.IntegerField(
        help_text="Number of workunits skipped because their queue does not accept their app or "
        "their infinite deadline any more."
    )


class Batches(Endpoint):
    """The batches that the caller may see."""

    filterset_class = BatchFilters

    @operation("List batches", name="list_batches", answer=BatchShown, listed=True)
    def get(self, request: Request) -> Response:
        """Returns batches with their progress and cost, newest first.

        These are the caller's batches, or all batches for callers who may view everything.
        """
        rows = submitted.batches(viewer_of(request))
        return self.page(rows, lambda page_rows: _figures(page_rows, now=self.now))

    @operation(
        "Create a batch",
        name="create_batch",
        answer=BatchShown,
        status=201,
        body=BatchWanted,
        idempotent=True,
        problems=(409, 422),
    )
    def post(self, request: Request) -> Response:
        """Creates an empty batch; without `name`, a name is generated."""
        data, now = self.body(), self.now
        app = App.objects.filter(name=data.pop("app")).first()
        if app is None:
            msg = "There is no such app. Hint: GET /api/v1/apps lists the apps."
            raise Problem(422, "unknown_app", msg)
        submitters.require_submit(self.account, app)
        seconds = data.pop("expires_in_seconds", None)
        if seconds is not None:
            if data.get("expire_at") is not None:
                msg = "The request has both expire_at and expires_in_seconds. Hint: send only one."
                raise Problem(422, "batch_refused", msg)
            data["expire_at"] = now + timedelta(seconds=seconds)
        duration = data.pop("bundle_duration_seconds", None)
        if duration is not None:
            data["bundle_duration"] = timedelta(seconds=duration)
        batch = new_batches.make(NewBatch(**data), app=app, submitter=self.account, now=now)
        where = request.build_absolute_uri(f"/api/v1/batches/{batch.pk}")
        return self.reply(batch, headers={"Location": where}, **_figures([batch], now=now))


class OneBatch(Endpoint):
    @operation("Read a batch", name="read_batch", answer=BatchShown, conditional=True)
    def get(self, request: Request, batch_id: int) -> Response:
        """Returns the batch with its progress and cost."""
        batch = find(request, batch_id)
        return self.reply(batch, **_figures([batch], now=self.now))

    def rows(self, batch_id: int) -> QuerySet[Batch]:
        return submitted.batches(changer_of(self.request)).filter(pk=batch_id)

    @operation(
        "Change a batch",
        name="change_batch",
        or_scope=Scope.MANAGE,
        answer=BatchShown,
        body=BatchChanged,
        problems=(409, 422),
        guarded=True,
    )
    def patch(self, request: Request, batch_id: int) -> Response:
        """Changes the name, `meta`, expiry or acceleration of a batch.

        With `accelerate`, the results of the batch are sent before those of other batches.
        """
        batch = find_to_change(request, batch_id)
        batches.change(batch.pk, self.body(), by=self.account, now=self.now)
        batch = find_to_change(request, batch_id)
        return self.reply(batch, **_figures([batch], now=self.now))


class BatchProgress(Endpoint):
    @operation(
        "Read the progress of a batch",
        name="read_batch_progress",
        answer=ProgressNow,
        conditional=True,
    )
    def get(self, request: Request, batch_id: int) -> Response:
        """Returns the progress of the batch.

        Clients may send this request every second, with `If-None-Match`.
        """
        batch = find(request, batch_id)
        figures = progress.progress_of([batch], now=self.now)[batch.pk]
        return self.reply(figures, batch=batch)


class BatchTroubles(Endpoint):
    @operation(
        "Read the errors of a batch, and why it makes no progress",
        name="read_batch_troubles",
        answer=TroublesShown,
        conditional=True,
    )
    def get(self, request: Request, batch_id: int) -> Response:
        """Returns the last failed result, and the reasons why workunits make no progress."""
        batch = find(request, batch_id)
        troubles = last_error.troubles_of(batch)
        return self.reply(troubles, waits=standstill.waits_of(batch, now=self.now))


class GraphNode(Shown):
    """A workunit of a graph; `after` has the ids of the workunits for which it waits."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    status = serializers.ChoiceField(choices=[status.value for status in Status])
    group = serializers.BooleanField(source="is_group")
    after = serializers.ListField(child=serializers.IntegerField(), source="parent_ids")


class GraphShown(Shown):
    """The workunits of a batch and their dependencies."""

    workunits = GraphNode(many=True)
    left_out = serializers.IntegerField(
        help_text=f"Number of further workunits; the first {submitted.MAX_GRAPH} are returned."
    )


class BatchGraph(Endpoint):
    @operation(
        "Read the graph of a batch",
        name="read_batch_graph",
        answer=GraphShown,
        conditional=True,
    )
    def get(self, request: Request, batch_id: int) -> Response:
        """Returns the workunits of the batch, each with the workunits for which it waits."""
        batch = find(request, batch_id)
        return self.reply(submitted.graph_of(batch.pk, now=self.now))


class BatchAbort(Endpoint):
    @operation(
        "Abort a batch",
        name="abort_batch",
        or_scope=Scope.MANAGE,
        answer=Cancelled,
        body=Reason,
        problems=(409,),
    )
    def post(self, request: Request, batch_id: int) -> Response:
        """Closes the batch and cancels its unfinished workunits.

        A repeated call has no effect.
        """
        batch = find_to_change(request, batch_id)
        return self.reply(batches.abort(batch.pk, reason=self.body()["reason"], now=self.now))


class BatchRetire(Endpoint):
    @operation(
        "Retire a batch",
        name="retire_batch",
        or_scope=Scope.MANAGE,
        answer=RetiredOut,
        body=Nothing,
        problems=(409,),
    )
    def post(self, request: Request, batch_id: int) -> Response:
        """Releases the outputs of a complete or aborted batch for deletion.

        Retirement is permanent, so download the outputs first.
        """
        batch = find_to_change(request, batch_id)
        self.body()
        return self.reply({"let_go": batches.retire(batch.pk, now=self.now)})


class BatchRetry(Endpoint):
    @operation(
        "Retry failed workunits",
        name="retry_batch",
        answer=RetriedOut,
        body=RetryWanted,
        idempotent=True,
        problems=(409, 422),
    )
    def post(self, request: Request, batch_id: int) -> Response:
        """Submits failed workunits again in the same batch, as `<name>.2`."""
        batch = find_to_change(request, batch_id)
        submitters.require_submit(self.account, cast("App", batch.app))
        names = self.body().get("workunits")
        try:
            return self.reply(retry.retry(batch.pk, names=names, now=self.now))
        except new_batches.BatchRefused as refusal:
            raise Problem(409, "batch_not_ready", str(refusal)) from refusal
        except WorkunitsNotFound as refusal:
            raise Problem(422, "workunits_not_found", str(refusal)) from refusal


def find(request: Request, batch_id: int) -> Batch:
    """Return the batch; raise `Http404` unless the caller may see it."""
    return get_object_or_404(submitted.batches(viewer_of(request)), pk=batch_id)


def find_to_change(request: Request, batch_id: int) -> Batch:
    """Return the batch; raise `Http404` or `PermissionDenied` unless the caller may change it."""
    return get_object_or_404(submitted.batches(changer_of(request)), pk=batch_id)


def _figures(rows: list[Batch], *, now: datetime) -> dict[str, Any]:
    """Return the context of `BatchShown`: the progress and cost of the batches, and `now`."""
    by_id = progress.progress_of(rows, now=now)
    return {"progress": by_id, "costs": progress.costs_of(rows), "now": now}
