"""Cancellation of workunits: by id, by name, or a whole batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import Http404
from django.shortcuts import get_object_or_404
from django.urls import path
from rest_framework import serializers
from rest_framework.response import Response

from scheduler.api import describe
from scheduler.api.endpoints.batches import Cancelled, Reason
from scheduler.api.http.body import INT8
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.operation import Scope, operation
from scheduler.api.http.problems import Problem
from scheduler.api.viewer import changer_of
from scheduler.work import batches, cancel, submitted
from scheduler.work.batches import BatchNotReady

if TYPE_CHECKING:
    from rest_framework.request import Request

_MAX_LISTED = 10_000


class ToCancel(Reason):
    """Workunits, by `ids` and `names`, or all workunits of `batch`, by its id."""

    ids = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=INT8),
        required=False,
        max_length=_MAX_LISTED,
    )
    names = serializers.ListField(
        child=serializers.CharField(max_length=200), required=False, max_length=_MAX_LISTED
    )
    batch = serializers.IntegerField(required=False, min_value=0, max_value=INT8)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Raise `Problem` (422) unless there are either workunits or a batch."""
        listed = bool(attrs.get("ids") or attrs.get("names"))
        if listed == ("batch" in attrs):
            msg = (
                "Nothing is named, or workunits and a batch. Hint: send ids and names, or a batch."
            )
            raise Problem(422, "nothing_named", msg)
        return attrs


class CancelWorkunits(Endpoint):
    """The cancellation of several workunits."""

    @operation(
        "Cancel workunits",
        name="cancel_workunits",
        or_scope=Scope.MANAGE,
        tag="workunits",
        answer=Cancelled,
        body=ToCancel,
        problems=(404, 409),
    )
    def post(self, request: Request) -> Response:
        """Cancels all named workunits, or none if one of them does not exist.

        With `batch`, aborts the batch.
        """
        data = self.body()
        if "batch" in data:
            batch = get_object_or_404(submitted.batches(changer_of(request)), pk=data["batch"])
            try:
                done = batches.abort(batch.pk, reason=data["reason"], now=self.now)
            except BatchNotReady as refusal:
                raise Problem(409, "batch_not_ready", str(refusal)) from refusal
            return Response(describe.cancelled(done))
        ids, names = data.get("ids", []), data.get("names", [])
        missing = submitted.not_owned(changer_of(request), ids=ids, names=names)
        if missing:
            raise Problem(404, "not_found", str(cancel.WorkunitsNotFound(missing)))
        return Response(_cancelled(names, ids, data["reason"], self))


class CancelWorkunit(Endpoint):
    """The cancellation of one workunit."""

    @operation(
        "Cancel a workunit",
        name="cancel_workunit",
        or_scope=Scope.MANAGE,
        tag="workunits",
        answer=Cancelled,
        body=Reason,
    )
    def post(self, request: Request, workunit_id: int) -> Response:
        """A finished workunit is not changed; a repeated call has no effect."""
        if submitted.not_owned(changer_of(request), ids=[workunit_id], names=[]):
            raise Http404
        return Response(_cancelled([], [workunit_id], self.body()["reason"], self))


def _cancelled(names: list[str], ids: list[int], reason: str, endpoint: Endpoint) -> dict[str, int]:
    try:
        done = cancel.cancel(names=names, ids=ids, reason=reason, now=endpoint.now)
    except cancel.WorkunitsNotFound as refusal:  # purged since the check
        raise Problem(404, "not_found", str(refusal)) from refusal
    return describe.cancelled(done)


urlpatterns = [
    path("workunits/cancel", CancelWorkunits.as_view()),
    path("workunits/<id:workunit_id>/cancel", CancelWorkunit.as_view()),
]
