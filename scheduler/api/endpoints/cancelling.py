"""Cancelling workunits over the API: by name, by id, one or a whole batch."""

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

_MOST = 10_000


class ToCancel(Reason):
    """Workunits by `ids` and `names`, or all of a batch, by its number."""

    ids = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=INT8),
        required=False,
        max_length=_MOST,
    )
    names = serializers.ListField(
        child=serializers.CharField(max_length=200), required=False, max_length=_MOST
    )
    batch = serializers.IntegerField(required=False, min_value=0, max_value=INT8)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Ask for workunits or a batch, not both and not neither."""
        listed = bool(attrs.get("ids") or attrs.get("names"))
        if listed == ("batch" in attrs):
            msg = "Nothing is named, or too much. Hint: give ids and names, or a batch."
            raise Problem(422, "nothing_named", msg)
        return attrs


class CancelWorkunits(Endpoint):
    """Cancelling some."""

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
        """All that are named, or none if one of them does not exist.  Of a batch: abort it."""
        said = self.body()
        if "batch" in said:
            batch = get_object_or_404(submitted.batches(changer_of(request)), pk=said["batch"])
            try:
                done = batches.abort(batch.pk, reason=said["reason"], now=self.now)
            except BatchNotReady as refusal:
                raise Problem(409, "batch_not_ready", str(refusal)) from refusal
            return Response(describe.cancelled(done))
        ids, names = said.get("ids", []), said.get("names", [])
        missing = submitted.not_theirs(changer_of(request), ids=ids, names=names)
        if missing:
            raise Problem(404, "not_found", str(cancel.WorkunitsNotFound(missing)))
        return Response(_cancelled(names, ids, said["reason"], self))


class CancelWorkunit(Endpoint):
    """Cancelling one."""

    @operation(
        "Cancel a workunit",
        name="cancel_workunit",
        or_scope=Scope.MANAGE,
        tag="workunits",
        answer=Cancelled,
        body=Reason,
    )
    def post(self, request: Request, workunit_id: int) -> Response:
        """If it is over, it stays as it is; repeating it changes nothing."""
        if submitted.not_theirs(changer_of(request), ids=[workunit_id], names=[]):
            raise Http404
        return Response(_cancelled([], [workunit_id], self.body()["reason"], self))


def _cancelled(names: list[str], ids: list[int], reason: str, endpoint: Endpoint) -> dict[str, int]:
    try:
        done = cancel.cancel(names=names, ids=ids, reason=reason, now=endpoint.now)
    except cancel.WorkunitsNotFound as refusal:  # purged between the look and the act
        raise Problem(404, "not_found", str(refusal)) from refusal
    return describe.cancelled(done)


urlpatterns = [
    path("workunits/cancel", CancelWorkunits.as_view()),
    path("workunits/<id:workunit_id>/cancel", CancelWorkunit.as_view()),
]
