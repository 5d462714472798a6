"""Endpoints for the usage of batches, and for statistics of batches and apps."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.shortcuts import get_object_or_404
from rest_framework import serializers

from scheduler.api.endpoints.batches import find
from scheduler.api.history_shown import ResourcesShown, ResultStatisticsShown
from scheduler.api.http.body import Shown, StrictQuery
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import operation
from scheduler.api.http.problems import Problem
from scheduler.api.viewer import viewer_of
from scheduler.health import counts
from scheduler.models import App
from scheduler.work import attempt_history
from scheduler.work.usage import WAYS, usage_of

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response

_DEFAULT_PERIOD = timedelta(days=30)


class UsageQuery(StrictQuery):
    """The period and the grouping of the usage."""

    since = serializers.DateField(
        required=False, help_text="The first day (UTC). The default is 30 days before `until`."
    )
    until = serializers.DateField(
        required=False, help_text="The day after the last day (UTC). The default is tomorrow."
    )
    by = serializers.ChoiceField(choices=WAYS, default="day")


class UsedShown(Shown):
    """Usage of a day, an app or a batch.

    `by` selects which of `day`, `app` and `batch` is set; the others are null.
    """

    day = serializers.DateField(allow_null=True)
    app = serializers.CharField(allow_null=True)
    batch = serializers.IntegerField(allow_null=True)
    name = serializers.CharField(allow_null=True, help_text="The name of the batch.")
    workunits = serializers.IntegerField(
        help_text="Number of finished workunits, counted on the day when they finished."
    )
    results = serializers.IntegerField(
        help_text="Number of sent results, counted on the day when they were reported, or sent if "
        "they were never reported."
    )
    cpu_seconds = serializers.FloatField()
    elapsed_seconds = serializers.FloatField()
    credit = serializers.FloatField()


class UsageShown(Shown):
    """Usage in a period."""

    since = serializers.DateField()
    until = serializers.DateField()
    by = serializers.ChoiceField(choices=WAYS)
    usage = UsedShown(many=True)


class Usage(Endpoint):
    """The usage of the batches that the caller may see."""

    @operation(
        "Read the resource usage",
        name="read_usage",
        answer=UsageShown,
        query=UsageQuery,
        problems=(422,),
    )
    def get(self, request: Request) -> Response:
        """Returns the usage by day, app or batch, including purged workunits."""
        query = self.query()
        until = query.get("until") or self.now.date() + timedelta(days=1)
        since = query.get("since") or max(until, until.min + _DEFAULT_PERIOD) - _DEFAULT_PERIOD
        if since > until:
            msg = f"since ({since}) is later than until ({until}). Hint: swap the two days."
            raise Problem(422, "no_days", msg)
        used = usage_of(viewer_of(request), since=since, until=until, by=query["by"])
        return self.reply({"since": since, "until": until, "by": query["by"], "usage": used})


class BatchStatistics(Endpoint):
    @operation(
        "Read the statistics of a batch",
        name="read_batch_statistics",
        answer=ResultStatisticsShown,
    )
    def get(self, request: Request, batch_id: int) -> Response:
        """Returns figures of the results of the batch, without purged results.

        The `cost` of the batch and `/usage` include purged results.
        """
        return self.reply(attempt_history.statistics_of(find(request, batch_id).pk, of="batch_id"))


class AppStatisticsShown(ResourcesShown):
    """Numbers of an app's workunits by station, and what its results used.

    Done and failed include purged workunits; the times and the memory do not.
    """

    name = serializers.CharField()
    read_at = serializers.DateTimeField(help_text="The time of the count, at most a minute ago.")
    total_credit = serializers.FloatField()
    in_progress = serializers.IntegerField()
    waiting_for_validation = serializers.IntegerField()
    waiting_for_assimilation = serializers.IntegerField()
    waiting_for_deletion = serializers.IntegerField()
    done = serializers.IntegerField()
    failed = serializers.IntegerField()


class AppStatistics(Endpoint):
    @operation(
        "Read the statistics of an app", name="read_app_statistics", answer=AppStatisticsShown
    )
    def get(self, request: Request, name: str) -> Response:
        """Returns the numbers of the app's workunits, its credit, and what its results used.

        The results are not read for the request: the figures are those of the last count.
        """
        app = get_object_or_404(App.objects.only("name", "total_credit"), name=name)
        counted = counts.current(now=self.now)
        # An app that was created after the last count has no figures yet.
        figures = counted.apps.get(name) or counts.AppCounts(0, 0, 0, 0, 0, 0, 0)
        fields = {field: getattr(figures, field) for field in _APP_COUNTS}
        return self.reply(
            {
                "name": name,
                "read_at": counted.read_at,
                "total_credit": float(app.total_credit),
                "resources": counted.resources.get(name, counts.Resources()),
                **fields,
            }
        )


_APP_COUNTS = (
    *("in_progress", "waiting_for_validation", "waiting_for_assimilation"),
    *("waiting_for_deletion", "done", "failed"),
)
