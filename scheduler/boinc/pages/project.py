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

from scheduler import storage
from scheduler.apps import published
from scheduler.boinc.pages.web_rpc import is_set, web_rpc
from scheduler.boinc.wire import status_pages as wire
from scheduler.health import maintenance, server_load, status
from scheduler.health.rules.alert_texts import SILENT_AFTER
from scheduler.health.server_load import AppLoad, ServerLoad
from scheduler.health.status import Status
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
    if is_set(request.GET, "xml"):
        return _apps(request)
    return HttpResponseRedirect(reverse("status"))


@web_rpc
def _job_counts(_params: QueryDict, _address: str, now: datetime) -> bytes:
    return wire.encode_job_counts(_counts(status.current(now=now)))


@web_rpc
def _server_status(_params: QueryDict, _address: str, now: datetime) -> bytes:
    # Reads files only: the page is public, and the figures take a scan of large tables.
    load = server_load.current(now=now)
    states = wire.FileStates() if load is None else _file_states(load)
    apps = () if load is None else load.people.apps
    return wire.encode_server_status(_daemons(now), states, map(_app_line, apps))


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


def _daemons(now: datetime) -> Iterator[wire.DaemonLine]:
    """Yield the web server's parts, which answer this request, and the daemons."""
    host = urlsplit(settings.PROJECT.master_url).hostname or ""
    uploads = _NOT_RUNNING if storage.uploads_stopped() else _RUNNING
    web = _NOT_RUNNING if maintenance.stops_scheduler() else _RUNNING
    for command, state in (("Download server", _RUNNING), ("Upload server", uploads)):
        yield wire.DaemonLine(host=host, command=command, status=state)
    yield wire.DaemonLine(host=host, command="Scheduler", status=web)
    is_paused = maintenance.stops_daemons()
    seen = storage.signs_of_life()
    for daemon in status.DAEMONS:
        state = _DISABLED if is_paused else _daemon_state(seen.get(daemon), now)
        yield wire.DaemonLine(host=host, command=daemon, status=state)


def _daemon_state(seen_at: datetime | None, now: datetime) -> str:
    is_running = seen_at is not None and now - seen_at <= SILENT_AFTER
    return _RUNNING if is_running else _NOT_RUNNING


def _file_states(load: ServerLoad) -> wire.FileStates:
    work, people = load.work, load.people
    return wire.FileStates(
        results_ready_to_send=work.unsent,
        results_in_progress=work.in_progress,
        workunits_waiting_for_validation=work.waiting_for_validation,
        workunits_waiting_for_assimilation=work.waiting_for_assimilation,
        workunits_waiting_for_deletion=work.deletable_workunits,
        results_waiting_for_deletion=work.deletable_outputs,
        transitioner_backlog_hours=work.transitioner_hours,
        users_with_recent_credit=people.users_with_recent_credit,
        users_with_credit=people.users_with_credit,
        users_registered_in_past_24_hours=people.users_registered,
        hosts_with_recent_credit=people.hosts_with_recent_credit,
        hosts_with_credit=people.hosts_with_credit,
        hosts_registered_in_past_24_hours=people.hosts_registered,
        current_floating_point_speed=people.gflops,
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
