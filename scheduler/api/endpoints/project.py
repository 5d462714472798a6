"""Public figures of the project: those of the status page, and totals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from rest_framework import serializers

from scheduler.api.http.body import Duration, Shown
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.operation import Access, operation
from scheduler.api.shown import WaitShown
from scheduler.health import status, totals

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response


class CountOut(Shown):
    """A count."""

    value = serializers.IntegerField()
    exact = serializers.BooleanField(
        help_text="False if the count is older than `read_at`, by at most a minute."
    )


class CountsOut(serializers.DictField):
    """Counts by name."""

    child = CountOut()


class DaemonOut(Shown):
    """A daemon and its queue."""

    name = serializers.CharField(source="daemon")
    does = serializers.CharField()
    waiting = CountOut()
    behind_seconds = Duration(
        source="behind", allow_null=True, help_text="Age of the oldest waiting item."
    )
    silent_seconds = Duration(
        source="silent",
        allow_null=True,
        help_text="Time since its last heartbeat; null: never seen.",
    )


class VersionLineOut(Shown):
    """The newest version for one platform and plan class."""

    platform = serializers.CharField()
    version = serializers.CharField()
    plan_class = serializers.CharField()


class AppLineOut(Shown):
    """An app with its newest versions."""

    name = serializers.CharField()
    title = serializers.CharField()
    versions = VersionLineOut(many=True)


class StatusOut(Shown):
    """The figures of the status page."""

    project = serializers.CharField()
    master_url = serializers.CharField()
    read_at = serializers.DateTimeField()
    workunits = CountsOut()
    results = CountsOut()
    outcomes = CountsOut()
    people = CountsOut()
    daemons = DaemonOut(many=True, source="stations")
    waits = WaitShown(
        many=True, help_text="Reasons why unsent work is not sent; empty if nothing blocks it."
    )
    apps = AppLineOut(many=True)

    def read_project(self, _status: status.Status) -> str:
        return settings.PROJECT.name

    def read_master_url(self, _status: status.Status) -> str:
        return settings.PROJECT.master_url


class AppTotalOut(Shown):
    """Totals of an app, purged work included."""

    name = serializers.CharField()
    title = serializers.CharField()
    total_credit = serializers.FloatField()
    workunits_done = serializers.IntegerField(help_text="Workunits with a canonical result.")
    workunits_failed = serializers.IntegerField(
        help_text="Workunits that failed, were cancelled or expired."
    )


class StatisticsOut(Shown):
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
        "Read the status of the project", name="read_status", answer=StatusOut, access=Access.PUBLIC
    )
    def get(self, request: Request) -> Response:
        """The figures of the status page at the time `read_at`, purged work included.

        They are at most two seconds old; counts of large tables at most a minute.
        """
        return self.reply(status.current(now=self.now))


class Statistics(Endpoint):
    """Totals of the project."""

    @operation(
        "Read the totals of the project",
        name="read_statistics",
        answer=StatisticsOut,
        access=Access.PUBLIC,
    )
    def get(self, request: Request) -> Response:
        """Granted credit, and numbers of accounts, hosts, workunits and results."""
        return self.reply(totals.current(now=self.now))
