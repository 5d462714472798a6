"""Builds the fields of a scheduler reply: project, account, host, assigned work."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import md5
from itertools import groupby
from operator import attrgetter
from typing import Any

from scheduler import signing, storage
from scheduler.boinc.sent_preferences import SentPreferences
from scheduler.boinc.translate import GPU_TYPES
from scheduler.boinc.wire import messages, xml
from scheduler.config import ProjectConfig
from scheduler.dispatch.facts import (
    AppFacts,
    AssignedResult,
    Version,
    VersionFacts,
    VersionFile,
    Work,
)
from scheduler.dispatch.rules import launching
from scheduler.dispatch.rules.lost_results import Holdings
from scheduler.hosts.identity import Caller
from scheduler.messages.facts import PendingTrickle
from scheduler.people import feed_keys
from scheduler.results.facts import output_name
from scheduler.results.rules.reports import RUNNER

#: The server version in replies.  BOINC clients let a server of version 507 or later replace
#: host-specific preferences, and treat version 800 or later as a current server.
SCHEDULER_VERSION = 802
#: The maximum number of cached file messages: programs and common inputs are sent to many hosts.
_MAX_CACHED_FILES = 1024
#: A client that is sent no `max_termination_time` uses this one, in seconds.
DEFAULT_TERMINATION_SECONDS = 10.0
#: How often clients fetch the feed of notices, as in BOINC.
FEED_POLL_SECONDS = 86_400.0
#: Clients ignore a feed whose address, escaped as XML, is longer.
MAX_FEED_URL = 255


def project_part(config: ProjectConfig) -> dict[str, object]:
    """Return the fields of every reply that describe the project."""
    return {
        "scheduler_version": SCHEDULER_VERSION,
        "dont_use_dcf": True,
        "master_url": config.master_url,
        "request_delay": config.request_delay.total_seconds(),
        "next_rpc_delay": config.next_contact.total_seconds() or None,
        "project_name": config.name,
    }


def refusal(
    config: ProjectConfig, text: str, *, delay: float, down: bool = False
) -> messages.SchedulerReply:
    """Return a reply without work.

    `text` is the reason, which the client shows as a notice.  `delay` is the time in seconds until
    the client's next request.  If `down` is set, the reply reports that the project is down.
    """
    fields: dict[str, Any] = project_part(config) | {"request_delay": delay}
    return messages.SchedulerReply(
        **fields,
        messages=(messages.Message(text=text, priority="notice"),),
        project_is_down=down,
    )


def caller_part(caller: Caller, preferences: SentPreferences) -> dict[str, object]:
    """Return the fields that describe the account and the host, with the preferences."""
    part: dict[str, object] = {
        "userid": caller.account_id,
        "user_name": caller.name,
        "user_total_credit": caller.account_total_credit,
        "user_expavg_credit": caller.account_expavg_credit,
        "user_create_time": int(caller.account_created_at.timestamp()),
        "email_hash": _md5(caller.email),
        "cross_project_id": caller.cross_project_id,
        "external_cpid": _md5(caller.cross_project_id + caller.email),
        "project_preferences": preferences.project,
        "host_total_credit": caller.host_total_credit,
        "host_expavg_credit": caller.host_expavg_credit,
        "host_venue": caller.venue,
        "host_create_time": int(caller.host_created_at.timestamp()),
        "teamid": caller.team_id or 0,
        "team_name": caller.team_name or "",
    }
    if caller.assigned:
        part["hostid"] = caller.host_id
    if preferences.computing is not None:
        part["global_preferences"] = preferences.computing
    return part


def feed_part(caller: Caller, config: ProjectConfig) -> dict[str, object]:
    """Return the field with the feed of the account's notices.

    The feed is left out if its address is longer than clients can read.
    """
    auth = feed_keys.feed_key(caller.account_id, caller.password_digest)
    url = f"{config.master_url}notices.php?userid={caller.account_id}&auth={auth}"
    if len(xml.escape(url)) > MAX_FEED_URL:
        return {}
    return {"rss_feeds": (messages.RssFeed(url=url, poll_interval=FEED_POLL_SECONDS),)}


def _md5(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def holdings_part(holdings: Holdings) -> dict[str, object]:
    """Return the fields with the names of the results that the client must abort."""
    return {
        "result_aborts": tuple(holdings.abort),
        "result_aborts_if_not_started": tuple(holdings.abort_if_not_started),
    }


def trickles(pending: Iterable[PendingTrickle]) -> tuple[messages.TrickleDown, ...]:
    """Convert pending trickles to the trickle-down messages of a reply."""
    return tuple(
        messages.TrickleDown(result_name=trickle.result_name, time=trickle.time, text=trickle.text)
        for trickle in pending
    )


def work_part(
    work: Work, config: ProjectConfig, *, kept_files: Collection[str] = ()
) -> dict[str, tuple[object, ...]]:
    """Return the apps, files, app versions, workunits and results of a reply.

    `kept_files` names the sticky files that the host already has.  They are sent with the sticky
    flag again, because a client clears the flag of a file that is sent without it.
    """
    sent = work.sent
    if not sent:
        return {}
    used = {result.app_version_id: result.flops for result in sent}
    versions = [work.versions[version_id] for version_id in used]
    published = [version for version in versions if not version.is_own]
    # An input file of several workunits is listed once.
    inputs = {
        file.name: _input(
            file.name,
            file.nbytes,
            file.md5,
            sticky=file.sticky or file.name in kept_files,
            master_url=config.master_url,
            mirror_urls=file.urls,
        )
        for file in {file.name: file for file in work.inputs}.values()
    }
    programs = {file.name: _program(file, config.master_url) for file in work.version_files}
    return {
        "apps": tuple({version.app.id: _app(version.app) for version in versions}.values()),
        "files": tuple((inputs | programs).values()),
        "app_versions": tuple(
            _version(version, used[version.facts.id], work.version_files) for version in published
        ),
        "workunits": tuple(_workunits(work, config)),
        "uploads": tuple(_uploads(sent, config)),
        "results": _results(sent, work.versions),
    }


@lru_cache(maxsize=_MAX_CACHED_FILES)
def _input(
    name: str, nbytes: int, md5: str, *, sticky: bool, master_url: str, mirror_urls: str
) -> messages.DownloadFile:
    return messages.DownloadFile(
        name=name,
        urls=tuple(mirror_urls.splitlines()) or (master_url + storage.download_url_path(name),),
        nbytes=nbytes,
        md5_cksum=md5,
        sticky=sticky,
    )


@lru_cache(maxsize=_MAX_CACHED_FILES)
def _program(file: VersionFile, master_url: str) -> messages.DownloadFile:
    return messages.DownloadFile(
        name=file.name,
        urls=(master_url + storage.download_url_path(file.name),),
        nbytes=file.nbytes,
        md5_cksum=file.md5,
        file_signature=file.signature,
        executable=file.executable,
    )


def _app(app: AppFacts) -> messages.ReplyApp:
    return messages.ReplyApp(
        name=app.name,
        user_friendly_name=app.title,
        non_cpu_intensive=app.non_cpu_intensive,
        fraction_done_exact=app.fraction_done_exact,
    )


def _version(
    version: Version, flops: float, files: Sequence[VersionFile]
) -> messages.ReplyAppVersion:
    facts = version.facts
    return messages.ReplyAppVersion(
        app_name=version.app.name,
        version_num=facts.version_num,
        platform=facts.platform,
        plan_class=facts.plan_class,
        api_version=version.api_version or None,
        avg_ncpus=facts.avg_ncpus,
        flops=flops,
        coprocs=_coprocs(facts),
        gpu_ram=facts.gpu_ram or None,
        cmdline=version.cmdline or None,
        file_prefix=version.file_prefix or None,
        dont_throttle=version.dont_throttle,
        is_wrapper=version.is_wrapper,
        needs_network=version.needs_network,
        file_refs=tuple(
            messages.FileRef(
                file_name=file.name,
                open_name=file.open_name or None,
                main_program=file.main_program,
                copy_file=file.copy_file,
            )
            for file in files
            if file.app_version_id == facts.id
        ),
    )


def _coprocs(facts: VersionFacts) -> tuple[messages.CoprocUsage, ...]:
    if not facts.device:
        return ()
    kind = GPU_TYPES.get(facts.device, facts.device)
    return (messages.CoprocUsage(type=kind, count=facts.device_count),)


def _workunits(work: Work, config: ProjectConfig) -> Iterable[messages.ReplyWorkunit]:
    refs: dict[int, list[messages.FileRef]] = {}
    for file in work.inputs:
        refs.setdefault(file.workunit_id, []).append(
            messages.FileRef(
                file_name=file.name, open_name=file.open_name or None, copy_file=file.copy_file
            )
        )
    for result in {result.workunit_id: result for result in work.sent}.values():
        version = work.versions[result.app_version_id]
        scale = _fpops_scale(result, version)
        yield messages.ReplyWorkunit(
            name=result.workunit_name,
            app_name=version.app.name,
            version_num=version.facts.version_num,
            rsc_fpops_est=result.rsc_fpops_est * scale,
            rsc_fpops_bound=result.rsc_fpops_bound * scale,
            rsc_memory_bound=result.rsc_memory_bound,
            rsc_disk_bound=result.rsc_disk_bound,
            max_termination_time=_termination_seconds(result),
            command_line=_command_line(
                result, version.app, refs.get(result.workunit_id, ()), config
            ),
            file_refs=tuple(refs.get(result.workunit_id, ())),
            **_requested_usage(result, version),
        )


def _termination_seconds(result: AssignedResult) -> float | None:
    """Return the seconds between SIGTERM and SIGKILL; None for the default of our client."""
    seconds = result.max_termination_time.total_seconds()
    return None if seconds == DEFAULT_TERMINATION_SECONDS else seconds


def _requested_usage(result: AssignedResult, version: Version) -> dict[str, Any]:
    """Return the fields on resource usage of a workunit that requests CPUs or GPUs, else none."""
    if not (result.requested_cpus or result.requested_gpus):
        return {}
    facts = version.facts
    count = result.requested_gpus or facts.device_count
    return {
        "avg_ncpus": result.requested_cpus or facts.avg_ncpus,
        "flops": result.flops,
        "coprocs": _coprocs(replace(facts, device_count=count)),
        "cmdline": version.cmdline or None,
    }


def _fpops_scale(result: AssignedResult, version: Version) -> float:
    """Return the factor for a workunit's operation counts, which is 1 for published versions.

    It can differ from 1 for volunteers' own programs.  Their client divides these counts by the
    speed in `app_info.xml` to estimate and limit the running time, and the server cannot send it
    another speed.
    """
    own_flops = version.facts.projected_flops
    return own_flops / result.flops if version.is_own and own_flops and result.flops > 0 else 1.0


def _command_line(
    result: AssignedResult,
    app: AppFacts,
    inputs: Sequence[messages.FileRef],
    config: ProjectConfig,
) -> str | None:
    if not app.is_launched:
        return result.command_line or None
    return launching.command_line(
        result.command_line,
        kind=app.kind,
        success_rule=app.success_rule,
        inputs=[ref.open_name or ref.file_name for ref in inputs],
        outputs=[output["open_name"] for output in result.outputs],
        optional=[output["open_name"] for output in result.outputs if output.get("optional")],
        inline_bytes=_inline_bytes(result, config) if app.success_rule == RUNNER else None,
    )


def _inline_bytes(result: AssignedResult, config: ProjectConfig) -> int:
    return launching.inline_bytes(
        config.stdio_storage, config.stdio_inline_bytes, has_outputs=bool(result.outputs)
    )


def _uploads(
    sent: Iterable[AssignedResult], config: ProjectConfig
) -> Iterable[messages.UploadFile]:
    urls, grant = (config.upload_url,), signing.upload_granter()
    for result in sent:
        for position, output in enumerate(result.outputs):
            name = output_name(result.result_name, result.result_id, position)
            max_nbytes = int(output["max_nbytes"])
            yield messages.UploadFile(
                name=name,
                urls=urls,
                max_nbytes=max_nbytes,
                xml_signature=grant(name, max_nbytes),
                gzip_when_done=bool(output.get("gzip_when_done")),
                sticky=bool(output.get("sticky")),
            )


def _results(
    sent: Sequence[AssignedResult], versions: Mapping[int, Version]
) -> tuple[messages.ReplyResult, ...]:
    """Return the results; those of a task list are numbered from 1, in the list's order."""
    listed = [result for result in sent if result.bundle_id]
    listed.sort(key=lambda result: (result.bundle_id, result.workunit_id))
    places = {
        result.result_id: place
        for _, members in groupby(listed, key=attrgetter("bundle_id"))
        for place, result in enumerate(members, 1)
    }
    return tuple(
        _result(result, versions[result.app_version_id], places.get(result.result_id, 0))
        for result in sent
    )


def _result(result: AssignedResult, version: Version, place: int) -> messages.ReplyResult:
    return messages.ReplyResult(
        name=result.result_name,
        wu_name=result.workunit_name,
        report_deadline=result.report_deadline.timestamp(),
        platform=version.facts.platform,
        version_num=version.facts.version_num,
        plan_class=version.facts.plan_class,
        report_immediately=any("report_immediately" in output for output in result.outputs),
        bundle=result.bundle_id,
        bundle_place=place,
        file_refs=tuple(
            messages.FileRef(
                file_name=output_name(result.result_name, result.result_id, position),
                open_name=output["open_name"],
                copy_file=bool(output.get("copy_file")),
                optional=bool(output.get("optional")),
            )
            for position, output in enumerate(result.outputs)
        ),
    )
