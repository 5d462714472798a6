"""Public figures of the project: those of the status page, and totals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.urls import path
from rest_framework import serializers
from rest_framework.response import Response

from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.operation import Access, operation
from scheduler.api.shown import WaitShown
from scheduler.health import status, totals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rest_framework.request import Request

    from scheduler.health.counts import Count


class CountOut(serializers.Serializer[object]):
    """A count."""

    value = serializers.IntegerField()
    exact = serializers.BooleanField(
        help_text="False if the count is older than `read_at`, by at most a minute."
    )


class CountsOut(serializers.DictField):
    """Counts by name."""

    child = CountOut()


class DaemonOut(serializers.Serializer[object]):
    """A daemon and its queue."""

    name = serializers.CharField()
    does = serializers.CharField()
    waiting = CountOut()
    behind_seconds = serializers.FloatField(
        allow_null=True, help_text="Age of the oldest waiting item."
    )
    silent_seconds = serializers.FloatField(
        allow_null=True, help_text="Time since its last heartbeat; null: never seen."
    )


class VersionLineOut(serializers.Serializer[object]):
    """The newest version for one platform and plan class."""

    platform = serializers.CharField()
    version = serializers.CharField()
    plan_class = serializers.CharField()


class AppLineOut(serializers.Serializer[object]):
    """An app with its newest versions."""

    name = serializers.CharField()
    title = serializers.CharField()
    versions = VersionLineOut(many=True)


class StatusOut(serializers.Serializer[object]):
    """The figures of the status page."""

    project = serializers.CharField()
    master_url = serializers.CharField()
    read_at = serializers.DateTimeField()
    workunits = CountsOut()
    results = CountsOut()
    outcomes = CountsOut()
    people = CountsOut()
    daemons = DaemonOut(many=True)
    waits = WaitShown(
        many=True, help_text="Reasons why unsent work is not sent; empty if nothing blocks it."
    )
    apps = AppLineOut(many=True)


class AppTotalOut(serializers.Serializer[object]):
    """Totals of an app, purged work included."""

    name = serializers.CharField()
    title = serializers.CharField()
    total_credit = serializers.FloatField()
    workunits_done = serializers.IntegerField(help_text="Workunits with a canonical result.")
    workunits_failed = serializers.IntegerField(
        help_text="Workunits that failed, were cancelled or expired."
    )


class StatisticsOut(serializers.Serializer[object]):
    """Totals of the project."""

    read_at = serializers.DateTimeField()
    total_credit = serializers.FloatField()
    accounts = CountOut()
    hosts = CountOut()
    workunits = CountOut(help_text="All, including purged ones.")
    results = CountOut(help_text="All, including purged ones.")
    apps = AppTotalOut(many=True)


class StatusNow(Endpoint):
    """The figures of the status page."""

    @operation(
        "Read the status of the project",
        name="read_status",
        tag="project",
        answer=StatusOut,
        access=Access.PUBLIC,
    )
    def get(self, request: Request) -> Response:
        """The figures of the status page at the time `read_at`, purged work included.

        They are at most two seconds old; counts of large tables at most a minute.
        """
        live = status.current(now=self.now)
        return Response(
            {
                "project": settings.PROJECT.name,
                "master_url": settings.PROJECT.master_url,
                "read_at": live.read_at,
                "workunits": _counts(live.workunits),
                "results": _counts(live.results),
                "outcomes": _counts(live.outcomes),
                "people": _counts(live.people),
                "daemons": [_daemon(station) for station in live.stations],
                "waits": WaitShown(live.waits, many=True).data,
                "apps": AppLineOut(live.apps, many=True).data,
            }
        )


class Statistics(Endpoint):
    """Totals of the project."""

    @operation(
        "Read the totals of the project",
        name="read_statistics",
        tag="project",
        answer=StatisticsOut,
        access=Access.PUBLIC,
    )
    def get(self, request: Request) -> Response:
        """Granted credit, and numbers of accounts, hosts, workunits and results."""
        return Response(StatisticsOut(totals.current(now=self.now)).data)


def _counts(counts: Mapping[str, Count]) -> dict[str, Any]:
    return {name: {"value": count.value, "exact": count.exact} for name, count in counts.items()}


def _daemon(station: status.Station) -> dict[str, Any]:
    return {
        "name": station.daemon,
        "does": station.does,
        "waiting": {"value": station.waiting.value, "exact": station.waiting.exact},
        "behind_seconds": None if station.behind is None else station.behind.total_seconds(),
        "silent_seconds": None if station.silent is None else station.silent.total_seconds(),
    }


urlpatterns = [
    path("status", StatusNow.as_view()),
    path("statistics", Statistics.as_view()),
]
