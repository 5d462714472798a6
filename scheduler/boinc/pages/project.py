"""Pages about the server, its work and its apps, which statistics sites read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from scheduler.apps import published
from scheduler.boinc.pages.web_rpc import is_set, web_rpc
from scheduler.boinc.wire import status_pages as wire
from scheduler.health import maintenance, server_load, status
from scheduler.health.rules.alert_texts import SILENT_AFTER
from scheduler.health.server_load import AppLoad, ServerLoad
from scheduler.health.status import Station, Status
from scheduler.models import AppVersion

_HOUR: Final = timedelta(hours=1)
_RUNNING, _NOT_RUNNING, _DISABLED = "running", "not running", "disabled"


@csrf_exempt
def server_status(request: HttpRequest) -> HttpResponse:
    """Return the state of the server as XML; without a format, lead to the status page."""
    if is_set(request.GET, "counts"):
        return _job_counts(request)
    if is_set(request.GET, "xml"):
        return _server_status(request)
    return HttpResponseRedirect(reverse("status"))


@require_safe
def apps(request: HttpRequest) -> HttpResponse:
    """Return the apps and their versions as XML; without a format, lead to the status page."""
    if request.GET.get("xml"):
        return _apps(request)
    return HttpResponseRedirect(reverse("status"))


@web_rpc
def _job_counts(_params: QueryDict, _address: str, now: datetime) -> bytes:
    return wire.encode_job_counts(_counts(status.current(now=now)))


@web_rpc
def _server_status(_params: QueryDict, _address: str, now: datetime) -> bytes:
    live, load = status.current(now=now), server_load.current(now=now)
    return wire.encode_server_status(
        _daemons(live), _file_states(live, load), map(_app_line, load.apps)
    )


@web_rpc
def _apps(_params: QueryDict, _address: str, _now: datetime) -> bytes:
    return wire.encode_applications(
        wire.Application(
            user_friendly_name=app.user_friendly_name or app.name,
            name=app.name,
            id=app.pk,
            beta=app.beta,
            versions=tuple(map(_version, versions)),
        )
        for app, versions in published.newest_versions().items()
    )


def _version(version: AppVersion) -> wire.VersionLine:
    platform = version.platform
    return wire.VersionLine(
        platform_short=platform.name,
        platform_long=platform.user_friendly_name or platform.name,
        version_num=version.version_num,
        plan_class=version.plan_class,
        date=f"{version.created_at:%d %b %Y, %H:%M:%S} UTC",
        date_unix=int(version.created_at.timestamp()),
        beta=version.beta,
    )


def _counts(live: Status) -> wire.JobCounts:
    counted = live.counted
    return wire.JobCounts(
        results_ready_to_send=counted.results["unsent"],
        results_in_progress=counted.results["in_progress"],
        results_need_file_delete=counted.deletable_outputs,
        wus_need_validate=counted.waiting["validator"],
        wus_need_assimilate=counted.waiting["assimilator"],
        wus_need_file_delete=counted.waiting["file_deleter"],
    )


def _daemons(live: Status) -> Iterator[wire.DaemonLine]:
    """Yield the web server's parts, which answer this request, and the daemons."""
    host = urlsplit(settings.PROJECT.master_url).hostname or ""
    web = _NOT_RUNNING if maintenance.stops_scheduler() else _RUNNING
    for command, state in (("Download server", _RUNNING), ("Upload server", web)):
        yield wire.DaemonLine(host=host, command=command, status=state)
    yield wire.DaemonLine(host=host, command="Scheduler", status=web)
    is_paused = maintenance.stops_daemons()
    for station in live.stations:
        state = _DISABLED if is_paused else _daemon_state(station)
        yield wire.DaemonLine(host=host, command=station.daemon, status=state)


def _daemon_state(station: Station) -> str:
    is_running = station.silent is not None and station.silent <= SILENT_AFTER
    return _RUNNING if is_running else _NOT_RUNNING


def _file_states(live: Status, load: ServerLoad) -> wire.FileStates:
    counts = _counts(live)
    backlog = next(each.behind for each in live.stations if each.daemon == "transitioner")
    return wire.FileStates(
        results_ready_to_send=counts.results_ready_to_send,
        results_in_progress=counts.results_in_progress,
        workunits_waiting_for_validation=counts.wus_need_validate,
        workunits_waiting_for_assimilation=counts.wus_need_assimilate,
        workunits_waiting_for_deletion=counts.wus_need_file_delete,
        results_waiting_for_deletion=counts.results_need_file_delete,
        transitioner_backlog_hours=(backlog or timedelta(0)) / _HOUR,
        users_with_recent_credit=load.users_with_recent_credit,
        users_with_credit=load.users_with_credit,
        users_registered_in_past_24_hours=load.users_registered,
        hosts_with_recent_credit=load.hosts_with_recent_credit,
        hosts_with_credit=load.hosts_with_credit,
        hosts_registered_in_past_24_hours=load.hosts_registered,
        current_floating_point_speed=load.gflops,
    )


def _app_line(app: AppLoad) -> wire.AppLine:
    return wire.AppLine(
        id=app.id,
        name=app.name,
        unsent=app.unsent,
        in_progress=app.in_progress,
        avg_runtime=_hours(app.avg_seconds),
        min_runtime=_hours(app.min_seconds),
        max_runtime=_hours(app.max_seconds),
        users=app.users,
    )


def _hours(seconds: float | None) -> float | None:
    """Return seconds as hours, rounded to hundredths as on BOINC's page."""
    return None if seconds is None else round(seconds / _HOUR.total_seconds(), 2)
