"""What somebody's batches have taken, over the API."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.urls import path
from rest_framework import serializers
from rest_framework.response import Response

from scheduler.api.http.body import StrictQuery
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.operation import operation
from scheduler.api.http.problems import Problem
from scheduler.api.viewer import viewer_of
from scheduler.work.usage import WAYS, usage_of

if TYPE_CHECKING:
    from rest_framework.request import Request

_USUAL = timedelta(days=30)


class UsageQuery(StrictQuery):
    """Of which days, and how it is parted."""

    since = serializers.DateField(
        required=False, help_text="The first day (UTC); 30 days before `until`, if not given."
    )
    until = serializers.DateField(
        required=False, help_text="The day after the last one; tomorrow, if not given."
    )
    by = serializers.ChoiceField(choices=WAYS, default="day")


class UsedShown(serializers.Serializer[Any]):
    """What a day, an app or a batch took; the others of the three are null."""

    day = serializers.DateField(allow_null=True)
    app = serializers.CharField(allow_null=True)
    batch = serializers.IntegerField(allow_null=True)
    name = serializers.CharField(allow_null=True, help_text="The batch's.")
    workunits = serializers.IntegerField(help_text="Finished, on the day when they were.")
    results = serializers.IntegerField(help_text="Sent, on the day when they were reported.")
    cpu_seconds = serializers.FloatField()
    elapsed_seconds = serializers.FloatField()
    credit = serializers.FloatField()


class UsageShown(serializers.Serializer[Any]):
    """What was used."""

    since = serializers.DateField()
    until = serializers.DateField()
    by = serializers.ChoiceField(choices=WAYS)
    usage = UsedShown(many=True)


class Usage(Endpoint):
    """What the batches of whoever asks have taken; all, for who administers."""

    @operation(
        "Say what was used",
        name="read_usage",
        tag="batches",
        answer=UsageShown,
        query=UsageQuery,
        problems=(422,),
    )
    def get(self, request: Request) -> Response:
        """By day, app or batch; purged workunits are counted with the others."""
        said = self.query()
        until = said.get("until") or self.now.date() + timedelta(days=1)
        since = said.get("since") or max(until, until.min + _USUAL) - _USUAL
        if since > until:
            msg = (
                f"since ({since}) is later than until ({until}). Hint: give the earlier day first."
            )
            raise Problem(422, "no_days", msg)
        used = usage_of(viewer_of(request), since=since, until=until, by=said["by"])
        told = {"since": since, "until": until, "by": said["by"], "usage": used}
        return Response(UsageShown(told).data)


urlpatterns = [path("usage", Usage.as_view())]
