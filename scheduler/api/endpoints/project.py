"""How the project is doing, for everybody: the status page's figures, and totals."""

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
    """A number of rows."""

    value = serializers.IntegerField()
    exact = serializers.BooleanField(
        help_text="False if it was counted a while before, at most a minute."
    )


class CountsOut(serializers.DictField):
    """Numbers by what they count."""

    child = CountOut()


class DaemonOut(serializers.Serializer[object]):
    """A daemon, and what lies before it."""

    name = serializers.CharField()
    does = serializers.CharField()
    waiting = CountOut()
    behind_seconds = serializers.FloatField(
        allow_null=True, help_text="How long the oldest has been waiting."
    )
    silent_seconds = serializers.FloatField(
        allow_null=True, help_text="How long ago it was last seen alive; null: never."
    )


class VersionLineOut(serializers.Serializer[object]):
    """The newest version for one platform and plan class."""

    platform = serializers.CharField()
    version = serializers.CharField()
    plan_class = serializers.CharField()


class AppLineOut(serializers.Serializer[object]):
    """An app that hands out work."""

    name = serializers.CharField()
    title = serializers.CharField()
    versions = VersionLineOut(many=True)


class StatusOut(serializers.Serializer[object]):
    """How the project is doing."""

    project = serializers.CharField()
    master_url = serializers.CharField()
    read_at = serializers.DateTimeField()
    workunits = CountsOut()
    results = CountsOut()
    outcomes = CountsOut()
    people = CountsOut()
    daemons = DaemonOut(many=True)
    waits = WaitShown(
        many=True, help_text="Why unsent work does not move; empty if it is about to."
    )
    apps = AppLineOut(many=True)


class AppTotalOut(serializers.Serializer[object]):
    """What an app came to, purged work included."""

    name = serializers.CharField()
    title = serializers.CharField()
    total_credit = serializers.FloatField()
    workunits_done = serializers.IntegerField(help_text="Those with an answer.")
    workunits_failed = serializers.IntegerField(help_text="Those with a reason why not.")


class StatisticsOut(serializers.Serializer[object]):
    """What the project came to."""

    read_at = serializers.DateTimeField()
    total_credit = serializers.FloatField()
    accounts = CountOut()
    hosts = CountOut()
    workunits = CountOut(help_text="All, purged ones included.")
    results = CountOut(help_text="All, purged ones included.")
    apps = AppTotalOut(many=True)


class StatusNow(Endpoint):
    """The status page for programs."""

    @operation(
        "How the project is doing",
        name="read_status",
        tag="project",
        answer=StatusOut,
        access=Access.PUBLIC,
    )
    def get(self, request: Request) -> Response:
        """The figures of the status page, purged work included: those of `read_at`.

        They are at most two seconds old, in large tables at most a minute.
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
    """Totals."""

    @operation(
        "What the project came to",
        name="read_statistics",
        tag="project",
        answer=StatisticsOut,
        access=Access.PUBLIC,
    )
    def get(self, request: Request) -> Response:
        """All credit that was granted, and how many there are of everything."""
        return Response(StatisticsOut(totals.current(now=self.now)).data)


def _counts(counts: Mapping[str, Count]) -> dict[str, Any]:
    return {name: {"value": one.value, "exact": one.exact} for name, one in counts.items()}


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
