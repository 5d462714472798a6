"""Batches over the API: what was submitted together, and how far it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.shortcuts import get_object_or_404
from django.urls import path
from rest_framework.response import Response

from scheduler.api import describe
from scheduler.api.endpoint import Endpoint
from scheduler.api.filters import Filters, Meta, Name, Word
from scheduler.api.operation import operation
from scheduler.api.shown import BATCH_STATES, BatchShown, ProgressNow
from scheduler.api.viewer import viewer_of
from scheduler.models import Batch
from scheduler.queries import progress, submitted

if TYPE_CHECKING:
    from datetime import datetime

    from rest_framework.request import Request


class BatchFilters(Filters):
    """Which batches to list."""

    app = Name(field_name="app__name")
    state = Word(words=BATCH_STATES)
    name = Name()
    meta = Meta()


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


class OneBatch(Endpoint):
    """A batch."""

    @operation(
        "Show a batch", name="read_batch", tag="batches", answer=BatchShown, conditional=True
    )
    def get(self, request: Request, batch_id: int) -> Response:
        """How far it is, and what it has cost."""
        [told] = shown([find(request, batch_id)], now=self.now)
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


def find(request: Request, batch_id: int) -> Batch:
    """The batch, if who asks may see it; else Http404."""
    return get_object_or_404(submitted.batches(viewer_of(request)), pk=batch_id)


def shown(batches: list[Batch], *, now: datetime) -> list[dict[str, Any]]:
    """Batches with their figures: two statements, however many they are."""
    how_far = progress.progress_of(batches, now=now)
    costs = progress.costs_of(batches)
    facts = [describe.batch(b, how_far[b.pk], costs[b.pk], now=now) for b in batches]
    return list(BatchShown(facts, many=True).data)


urlpatterns = [
    path("batches", Batches.as_view()),
    path("batches/<id:batch_id>", OneBatch.as_view()),
    path("batches/<id:batch_id>/progress", BatchProgress.as_view()),
]
