"""Endpoints that cancel workunits by id, by name, or of a whole batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import Http404
from rest_framework import serializers

from scheduler.api.endpoints.batches import Cancelled, Reason, find_to_change
from scheduler.api.http.body import INT8, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Scope, operation
from scheduler.api.http.problems import Problem
from scheduler.api.viewer import changer_of
from scheduler.work import batches, control, submitted

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response

_MAX_LISTED = 10_000


class Named(Strict):
    """Workunits: either their `ids` and `names`, or the id of a `batch`."""

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
        """Raise `Problem` (422) unless the body has either workunits or a batch."""
        listed = bool(attrs.get("ids") or attrs.get("names"))
        if listed == ("batch" in attrs):
            msg = (
                "The request has no workunits, or it has both workunits and a batch. "
                "Hint: send either ids and names, or a batch."
            )
            raise Problem(422, "nothing_named", msg)
        return attrs


class ToCancel(Named, Reason):
    """The workunits to cancel: either `ids` and `names`, or the id of a `batch`."""


class CancelWorkunits(Endpoint):
    @operation(
        "Cancel workunits",
        name="cancel_workunits",
        or_scope=Scope.MANAGE,
        answer=Cancelled,
        body=ToCancel,
        problems=(404, 409),
    )
    def post(self, request: Request) -> Response:
        """Cancels the given unfinished workunits; if one does not exist, cancels no workunit.

        If the body has `batch`, the batch is aborted, which cancels its unfinished workunits.
        """
        data = self.body()
        if "batch" in data:
            batch = find_to_change(request, data["batch"])
            return self.reply(batches.abort(batch.pk, reason=data["reason"], now=self.now))
        ids, names = data.get("ids", []), data.get("names", [])
        missing = submitted.not_owned(changer_of(request), ids=ids, names=names)
        if missing:
            raise control.WorkunitsNotFound(missing)
        done = control.cancel(names=names, ids=ids, reason=data["reason"], now=self.now)
        return self.reply(done)


class CancelWorkunit(Endpoint):
    @operation(
        "Cancel a workunit",
        name="cancel_workunit",
        or_scope=Scope.MANAGE,
        answer=Cancelled,
        body=Reason,
    )
    def post(self, request: Request, workunit_id: int) -> Response:
        """Cancels the workunit, unless it is finished. A repeated call has no effect."""
        if submitted.not_owned(changer_of(request), ids=[workunit_id], names=[]):
            raise Http404
        reason = self.body()["reason"]
        return self.reply(control.cancel(ids=[workunit_id], reason=reason, now=self.now))
