"""Batches over the API: what was submitted together, and how far it is."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from django.shortcuts import get_object_or_404
from django.urls import path
from rest_framework import serializers
from rest_framework.response import Response

from scheduler.api import describe
from scheduler.api.http.body import INT4, INT8, JsonObject, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.filters import Filters, Meta, Name, Word
from scheduler.api.http.operation import Scope, operation
from scheduler.api.http.problems import Problem
from scheduler.api.shown import BATCH_STATES, BatchShown, ProgressNow, TroublesShown
from scheduler.api.viewer import changer_of, viewer_of
from scheduler.health import standstill
from scheduler.models import App, Batch
from scheduler.people import submitters
from scheduler.people.quotas import QuotaExceeded
from scheduler.work import batches, last_error, progress, retry, submitted
from scheduler.work.batches import BadChange, BatchNotReady
from scheduler.work.cancel import WorkunitsNotFound
from scheduler.work.submission import new_batches
from scheduler.work.submission.facts import NewBatch

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import QuerySet
    from rest_framework.request import Request


class BatchFilters(Filters):
    """Which batches to list."""

    app = Name(field_name="app__name")
    state = Word(words=BATCH_STATES)
    name = Name()
    meta = Meta()


class BatchFields(Strict):
    """What of a batch may be said when it is made, and be changed later."""

    name = serializers.CharField(required=False, max_length=250, trim_whitespace=False)
    expire_at = serializers.DateTimeField(required=False, allow_null=True)
    accelerate_tail = serializers.BooleanField(required=False)
    meta = JsonObject(required=False)


class BatchWanted(BatchFields):
    """A batch to be made, empty.  `after` is the number of the batch that it follows."""

    app = serializers.CharField(max_length=60)
    after = serializers.IntegerField(required=False, allow_null=True, min_value=0, max_value=INT8)
    after_any = serializers.BooleanField(required=False)
    expires_in_seconds = serializers.IntegerField(required=False, min_value=1, max_value=INT4)
    priority = serializers.IntegerField(
        required=False, allow_null=True, min_value=-INT4, max_value=INT4
    )
    keep_outputs = serializers.BooleanField(
        default=True, help_text="Whether outputs stay until the batch is retired."
    )


class BatchChanged(BatchFields):
    """What shall be otherwise; what is left out stays."""

    accelerate = serializers.BooleanField(required=False)


class Reason(Strict):
    """Why."""

    reason = serializers.CharField(required=False, allow_blank=True, max_length=200, default="")


class Nothing(Strict):
    """An empty object, or no body."""


class RetryWanted(Strict):
    """Which failed workunits; all that were not cancelled, if none is named."""

    workunits = serializers.ListField(
        child=serializers.CharField(max_length=200), required=False, min_length=1, max_length=10000
    )


class Cancelled(serializers.Serializer[Any]):
    """What became of the workunits."""

    cancelled = serializers.IntegerField(help_text="Asked to be cancelled now.")
    already = serializers.IntegerField(help_text="Asked before.")
    finished = serializers.IntegerField(help_text="Over, and left as they are.")


class RetiredOut(serializers.Serializer[Any]):
    """How many workunits' files were let go."""

    let_go = serializers.IntegerField()


class RetriedOut(serializers.Serializer[Any]):
    """How many failed workunits were submitted again, and why others were not."""

    count = serializers.IntegerField()
    cancelled = serializers.IntegerField(help_text="Cancelled by somebody: name them to retry.")
    inputs_gone = serializers.IntegerField(help_text="Their input files are deleted.")
    names_taken = serializers.IntegerField(help_text="Another workunit has the new name.")


class Batches(Endpoint):
    """The batches of whoever asks; of all, for who administers."""

    queryset = Batch.objects.none()
    filterset_class = BatchFilters

    @operation("List batches", name="list_batches", tag="batches", answer=BatchShown, listed=True)
    def get(self, request: Request) -> Response:
        """The newest first, each with how far it is and what it has cost."""
        rows = self.filter_queryset(submitted.batches(viewer_of(request)))
        page = self.paginate_queryset(rows) or []
        return self.get_paginated_response(shown(page, now=self.now))

    @operation(
        "Make a batch",
        name="create_batch",
        tag="batches",
        answer=BatchShown,
        status=201,
        body=BatchWanted,
        idempotent=True,
        problems=(409, 422),
    )
    def post(self, request: Request) -> Response:
        """An empty one, to which workunits are submitted; the name is made if there is none."""
        said, now = self.body(), self.now
        app = App.objects.filter(name=said.pop("app")).first()
        if app is None:
            msg = "There is no such app. Hint: GET /api/v1/apps lists them."
            raise Problem(422, "unknown_app", msg)
        submitters.require_submit(self.account, app)
        seconds = said.pop("expires_in_seconds", None)
        if seconds is not None:
            if said.get("expire_at") is not None:
                msg = "Both expire_at and expires_in_seconds are given. Hint: give one."
                raise Problem(422, "batch_refused", msg)
            said["expire_at"] = now + timedelta(seconds=seconds)
        try:
            made = new_batches.make(NewBatch(**said), app=app, submitter=self.account, now=now)
        except new_batches.BatchRefused as refusal:
            raise Problem(422, "batch_refused", str(refusal)) from refusal
        [told] = shown([made], now=now)
        where = request.build_absolute_uri(f"/api/v1/batches/{made.pk}")
        return Response(told, status=201, headers={"Location": where})


class OneBatch(Endpoint):
    """A batch."""

    @operation(
        "Show a batch", name="read_batch", tag="batches", answer=BatchShown, conditional=True
    )
    def get(self, request: Request, batch_id: int) -> Response:
        """How far it is, and what it has cost."""
        [told] = shown([find(request, batch_id)], now=self.now)
        return Response(told)

    def rows(self, batch_id: int) -> QuerySet[Batch]:
        """What is changed."""
        return submitted.batches(changer_of(self.request)).filter(pk=batch_id)

    @operation(
        "Change a batch",
        name="change_batch",
        or_scope=Scope.MANAGE,
        tag="batches",
        answer=BatchShown,
        body=BatchChanged,
        problems=(409, 422),
        guarded=True,
    )
    def patch(self, request: Request, batch_id: int) -> Response:
        """Its name, its meta, when it expires, whether it is hurried on."""
        batch = find_to_change(request, batch_id)
        try:
            batches.change(batch.pk, self.body(), by=self.account, now=self.now)
        except BatchNotReady as refusal:
            raise Problem(409, "batch_not_ready", str(refusal)) from refusal
        except BadChange as refusal:
            raise Problem(422, "bad_change", str(refusal)) from refusal
        [told] = shown([find_to_change(request, batch_id)], now=self.now)
        return Response(told)


class BatchProgress(Endpoint):
    """How far a batch is."""

    @operation(
        "Say how far a batch is",
        name="read_batch_progress",
        tag="batches",
        answer=ProgressNow,
        conditional=True,
    )
    def get(self, request: Request, batch_id: int) -> Response:
        """Cheap enough to be asked every second, with `If-None-Match`."""
        batch = find(request, batch_id)
        found = progress.progress_of([batch], now=self.now)[batch.pk]
        return Response(ProgressNow(describe.progress(batch, found)).data)


class BatchTroubles(Endpoint):
    """What went wrong in a batch, and what it waits for."""

    @operation(
        "Show what went wrong in a batch, and what it waits for",
        name="read_batch_troubles",
        tag="batches",
        answer=TroublesShown,
        conditional=True,
    )
    def get(self, request: Request, batch_id: int) -> Response:
        """The result that failed last, how much is parked, and why open work does not move."""
        batch = find(request, batch_id)
        found = last_error.troubles_of(batch)
        facts = {
            "last_error": found.last_error,
            "parked": found.parked,
            "sentences": found.sentences,
            "waits": standstill.waits_of(batch, now=self.now),
        }
        return Response(TroublesShown(facts).data)


class BatchAbort(Endpoint):
    """Giving a batch up."""

    @operation(
        "Abort a batch",
        name="abort_batch",
        or_scope=Scope.MANAGE,
        tag="batches",
        answer=Cancelled,
        body=Reason,
        problems=(409,),
    )
    def post(self, request: Request, batch_id: int) -> Response:
        """All that is not over is cancelled; what is done stays.  Repeating it changes nothing."""
        batch = find_to_change(request, batch_id)
        try:
            done = batches.abort(batch.pk, reason=self.body()["reason"], now=self.now)
        except BatchNotReady as refusal:
            raise Problem(409, "batch_not_ready", str(refusal)) from refusal
        return Response(describe.cancelled(done))


class BatchRetire(Endpoint):
    """Putting a batch away."""

    @operation(
        "Retire a batch",
        name="retire_batch",
        or_scope=Scope.MANAGE,
        tag="batches",
        answer=RetiredOut,
        body=Nothing,
        problems=(409,),
    )
    def post(self, request: Request, batch_id: int) -> Response:
        """Its files are let go: fetch them before.  Only what is over can be retired."""
        batch = find_to_change(request, batch_id)
        self.body()
        try:
            return Response({"let_go": batches.retire(batch.pk, now=self.now)})
        except BatchNotReady as refusal:
            raise Problem(409, "batch_not_ready", str(refusal)) from refusal


class BatchRetry(Endpoint):
    """Trying again what failed."""

    @operation(
        "Retry what failed",
        name="retry_batch",
        tag="batches",
        answer=RetriedOut,
        body=RetryWanted,
        idempotent=True,
        problems=(409, 422),
    )
    def post(self, request: Request, batch_id: int) -> Response:
        """Failed workunits are submitted again in the same batch, as `<name>.2`."""
        batch = find_to_change(request, batch_id)
        submitters.require_submit(self.account, cast("App", batch.app))
        names = self.body().get("workunits")
        try:
            done = retry.retry(batch.pk, names=names, now=self.now)
        except (BatchNotReady, new_batches.BatchRefused) as refusal:
            raise Problem(409, "batch_not_ready", str(refusal)) from refusal
        except WorkunitsNotFound as refusal:
            raise Problem(422, "workunits_not_found", str(refusal)) from refusal
        except QuotaExceeded as refusal:
            raise Problem(403, "quota_exceeded", str(refusal)) from refusal
        return Response(asdict(done))


def find(request: Request, batch_id: int) -> Batch:
    """Return the batch if the caller may see it; raises `Http404`."""
    return get_object_or_404(submitted.batches(viewer_of(request)), pk=batch_id)


def find_to_change(request: Request, batch_id: int) -> Batch:
    """Return the batch if the caller may change it; raises `Http404`, `PermissionDenied`."""
    return get_object_or_404(submitted.batches(changer_of(request)), pk=batch_id)


def shown(rows: list[Batch], *, now: datetime) -> list[dict[str, Any]]:
    """Batches with their figures: two statements, however many they are."""
    how_far = progress.progress_of(rows, now=now)
    costs = progress.costs_of(rows)
    facts = [describe.batch(b, how_far[b.pk], costs[b.pk], now=now) for b in rows]
    return list(BatchShown(facts, many=True).data)


urlpatterns = [
    path("batches", Batches.as_view()),
    path("batches/<id:batch_id>", OneBatch.as_view()),
    path("batches/<id:batch_id>/progress", BatchProgress.as_view()),
    path("batches/<id:batch_id>/troubles", BatchTroubles.as_view()),
    path("batches/<id:batch_id>/abort", BatchAbort.as_view()),
    path("batches/<id:batch_id>/retire", BatchRetire.as_view()),
    path("batches/<id:batch_id>/retry", BatchRetry.as_view()),
]
