"""Endpoints that return the status and the totals of the project to the public."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from django.conf import settings
from rest_framework import serializers

from scheduler import storage
from scheduler.api.history_shown import ResourcesShown
from scheduler.api.http.body import Duration, Shown
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Access, operation
from scheduler.api.shown import WaitShown
from scheduler.credit import hardware_statistics
from scheduler.health import status, totals

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response

    from scheduler.health.status import AppLine
    from scheduler.storage import StatisticsFile


class CountOut(Shown):
    """A number of rows."""

    value = serializers.IntegerField()
    exact = serializers.BooleanField(
        help_text="False if the count was cached. A cached count is at most a minute old."
    )


class CountsOut(serializers.DictField):
    """Counts by name."""

    child = CountOut()


class DaemonOut(Shown):
    """A daemon, its backlog and its last heartbeat."""

    name = serializers.CharField(source="daemon")
    does = serializers.CharField()
    waiting = CountOut()
    behind_seconds = Duration(
        source="behind",
        allow_null=True,
        help_text="Time for which the oldest work has been due. Null if no work is due, and always "
        "for `work_generator`, which has no queue.",
    )
    silent_seconds = Duration(
        source="silent",
        allow_null=True,
        help_text="Time since the daemon's last heartbeat. Null if it never sent a heartbeat.",
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
    description = serializers.CharField(help_text="Plain text.")
    workunits_done = serializers.IntegerField(
        allow_null=True,
        help_text="Number of workunits with an answer, including purged ones. Null for an app that "
        "is newer than the counts.",
    )
    versions = VersionLineOut(many=True)

    def read_workunits_done(self, app: AppLine) -> int | None:
        return None if app.done is None else app.done.value


class StatusOut(Shown):
    """The figures of the status page."""

    project = serializers.CharField()
    description = serializers.CharField(
        help_text="Plain text about the computation and its purpose; it may be empty."
    )
    master_url = serializers.CharField()
    read_at = serializers.DateTimeField()
    workunits = CountsOut()
    results = CountsOut()
    outcomes = CountsOut()
    people = CountsOut()
    daemons = DaemonOut(many=True, source="stations")
    waits = WaitShown(
        many=True,
        help_text="Causes that block unsent work. The list is empty if nothing blocks it.",
    )
    apps = AppLineOut(many=True)

    def read_project(self, _status: status.Status) -> str:
        return settings.PROJECT.name

    def read_description(self, _status: status.Status) -> str:
        return settings.PROJECT.description

    def read_master_url(self, _status: status.Status) -> str:
        return settings.PROJECT.master_url


class AppTotalOut(ResourcesShown):
    """Totals of an app, including purged work except in the times and the memory."""

    name = serializers.CharField()
    title = serializers.CharField()
    total_credit = serializers.FloatField()
    workunits_done = serializers.IntegerField(
        help_text="Number of workunits with a canonical result."
    )
    workunits_failed = serializers.IntegerField(
        help_text="Number of workunits that failed, were cancelled or expired."
    )


class StatisticsOut(ResourcesShown):
    """Totals of the project, including purged work except in the times and the memory."""

    read_at = serializers.DateTimeField()
    total_credit = serializers.FloatField()
    accounts = CountOut()
    hosts = CountOut()
    workunits = CountOut(help_text="Number of all workunits, including purged workunits.")
    results = CountOut(help_text="Number of all results, including purged results.")
    apps = AppTotalOut(many=True)


class HardwareLineOut(Shown):
    """The computers with one operating system, processor vendor, processor or GPU."""

    name = serializers.CharField()
    computers = serializers.IntegerField()
    total_credit = serializers.FloatField()
    total_share = serializers.FloatField(help_text="From 0 to 1, of all lines of the list.")
    recent_share = serializers.FloatField(help_text="The same of the recent average credit.")


class ComputerStatisticsOut(Shown):
    """Computers by hardware; names of few owners are left out."""

    counted_at = serializers.DateTimeField(
        allow_null=True, help_text="Null before the first count."
    )
    systems = HardwareLineOut(many=True)
    vendors = HardwareLineOut(many=True)
    processors = HardwareLineOut(many=True)
    gpus = HardwareLineOut(many=True)


class StatisticsFileOut(Shown):
    """A file of the statistics export."""

    name = serializers.CharField()
    url = serializers.URLField()
    nbytes = serializers.IntegerField()
    changed_at = serializers.DateTimeField()

    def read_url(self, file: StatisticsFile) -> str:
        return urljoin(settings.PROJECT.master_url, f"/stats/{file.name}")

    def read_changed_at(self, file: StatisticsFile) -> datetime:
        return datetime.fromtimestamp(file.changed_at, tz=UTC)


class StatisticsFilesOut(Shown):
    """The files of the last statistics export."""

    results = StatisticsFileOut(many=True, help_text="Empty before the first export.")


class StatusNow(Endpoint):
    @operation(
        "Read the status of the project", name="read_status", answer=StatusOut, access=Access.PUBLIC
    )
    def get(self, request: Request) -> Response:
        """Returns the figures of the status page, including purged work.

        The figures are at most two seconds old, and the counts of large tables at most a minute.
        `read_at` is the time of the counts.
        """
        return self.reply(status.current(now=self.now))


class Statistics(Endpoint):
    @operation(
        "Read the totals of the project",
        name="read_statistics",
        answer=StatisticsOut,
        access=Access.PUBLIC,
    )
    def get(self, request: Request) -> Response:
        """Returns the granted credit, counts of rows, and what results used.

        The times and the memory are those of results that were not purged.
        """
        return self.reply(totals.current(now=self.now))


class ComputerStatistics(Endpoint):
    @operation(
        "Read the counts of computers by hardware",
        name="read_computer_statistics",
        answer=ComputerStatisticsOut,
        access=Access.PUBLIC,
    )
    def get(self, request: Request) -> Response:
        """Returns systems, processors and GPUs with their shares of credit, counted once a day."""
        statistics = hardware_statistics.current()
        lists = {f"{kind.value}s": lines for kind, lines in statistics.lines.items()}
        return self.reply({"counted_at": statistics.counted_at, **lists})


class StatisticsFiles(Endpoint):
    @operation(
        "List the files of the statistics export",
        name="list_statistics_files",
        answer=StatisticsFilesOut,
        access=Access.PUBLIC,
    )
    def get(self, request: Request) -> Response:
        """Returns the files in the format of BOINC's statistics export, written once a day."""
        return self.reply({"results": storage.written_statistics()})
