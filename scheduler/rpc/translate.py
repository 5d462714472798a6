"""Messages to facts and back: the only room that speaks both languages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import md5

from scheduler import signing, storage
from scheduler.config import ProjectConfig
from scheduler.facts.handout import Given, Version, VersionFile, Work
from scheduler.facts.hosts import HostDescription, HostFacts, Preferences, Report, Wish
from scheduler.facts.work import output_name
from scheduler.operations.hosts import Caller, Credentials
from scheduler.policy import estimates
from scheduler.policy.lost import Holdings
from scheduler.wire import messages

#: What BOINC clients take as this server's version; 507 and later may replace host-specific
#: preferences, 800 and later is a current server.
SCHEDULER_VERSION = 802
#: A client asks for at most so much work at once (PROTOCOL 10.1).
MOST_SECONDS = 28 * 86400.0
_MOST_STDERR = 64 * 1024
_PROJECT_PREFERENCES = "<resource_share>100</resource_share>"
_CPID = re.compile(r"[0-9a-f]{32}")


def credentials(request: messages.SchedulerRequest) -> Credentials:
    """By what the client says who it is."""
    return Credentials(
        key=request.authenticator.strip(),
        host_id=max(0, request.hostid),
        rpc_seqno=max(0, request.rpc_seqno),
        holds_results=bool(request.other_results),
        allow_multiple_clients=request.allow_multiple_clients,
    )


def description(request: messages.SchedulerRequest, ip_addr: str) -> HostDescription:
    """What the client says of its computer."""
    info, times, net = request.host_info, request.time_stats, request.net_stats
    return HostDescription(
        host_cpid=info.host_cpid,
        domain_name=info.domain_name,
        ip_addr=info.ip_addr or ip_addr,
        timezone=info.timezone,
        platform_name=request.platform_name,
        client_version=request.client_version,
        p_ncpus=max(1, info.p_ncpus),
        p_vendor=info.p_vendor,
        p_model=info.p_model,
        p_fpops=info.p_fpops if info.p_fpops > 0 else 1e9,
        p_iops=info.p_iops if info.p_iops > 0 else 1e9,
        p_membw=info.p_membw if info.p_membw > 0 else 1e9,
        m_nbytes=max(0.0, info.m_nbytes),
        m_cache=max(0.0, info.m_cache),
        m_swap=max(0.0, info.m_swap),
        d_total=max(0.0, info.d_total),
        d_free=max(0.0, info.d_free),
        os_name=info.os_name,
        os_version=info.os_version,
        n_bwup=max(0.0, net.bwup),
        n_bwdown=max(0.0, net.bwdown),
        on_frac=_fraction(times.on_frac),
        active_frac=_fraction(times.active_frac),
        gpu_active_frac=_fraction(times.gpu_active_frac),
    )


def _fraction(value: float) -> float:
    return min(1.0, max(0.0, value))


def preferences(request: messages.SchedulerRequest) -> Preferences:
    """The volunteer's limits."""
    prefs = request.preferences
    return Preferences(
        max_ncpus_pct=prefs.max_ncpus_pct,
        ram_max_used_busy_pct=prefs.ram_max_used_busy_pct,
        ram_max_used_idle_pct=prefs.ram_max_used_idle_pct,
        disk_max_used_gb=prefs.disk_max_used_gb,
        disk_max_used_pct=prefs.disk_max_used_pct,
        disk_min_free_gb=prefs.disk_min_free_gb,
        boinc_disk_used_bytes=request.disk_usage.d_boinc_used_total,
    )


def host_facts(
    caller: Caller, described: HostDescription, prefs: Preferences, *, held: Mapping[int, int]
) -> HostFacts:
    """The host as dispatch judges it."""
    return HostFacts(
        id=caller.host_id,
        account_id=caller.account_id,
        ncpus=estimates.usable_cpus(described, prefs),
        fpops=described.p_fpops,
        memory_bytes=estimates.usable_memory(described, prefs),
        disk_bytes=estimates.usable_disk(described, prefs),
        active_fraction=estimates.active_fraction(described),
        max_in_progress=caller.max_in_progress,
        held=held,
        hr_class=caller.hr_class,
    )


def wish(request: messages.SchedulerRequest) -> Wish:
    """How much work the client wants; nothing if its user wants none."""
    if request.dont_send_work:
        return Wish()
    seconds = max(request.cpu_req_secs, request.work_req_seconds if not request.coprocs else 0.0)
    return Wish(
        seconds=min(MOST_SECONDS, max(0.0, seconds)),
        instances=max(0.0, request.cpu_req_instances),
        queued_seconds=max(0.0, request.estimated_delay),
    )


def platforms(request: messages.SchedulerRequest) -> tuple[str, ...]:
    """The client's platforms, best first."""
    return (request.platform_name, *request.alt_platforms)


def reports(request: messages.SchedulerRequest) -> tuple[Report, ...]:
    """What the client finished, as facts."""
    return tuple(
        Report(
            name=result.name,
            client_state=result.state,
            exit_status=result.exit_status,
            cpu_time=result.final_cpu_time,
            elapsed_time=result.final_elapsed_time,
            peak_working_set_bytes=result.final_peak_working_set_size,
            peak_swap_bytes=result.final_peak_swap_size,
            peak_disk_bytes=result.final_peak_disk_usage,
            stderr=result.stderr_out[-_MOST_STDERR:],
        )
        for result in request.results
    )


def new_cpid(request: messages.SchedulerRequest, caller: Caller) -> str | None:
    """The cross-project id to adopt: the client's, if its key may change the account."""
    sent = request.cross_project_id
    if caller.is_strong and sent != caller.cross_project_id and _CPID.fullmatch(sent):
        return sent
    return None


def code_sign_key(request: messages.SchedulerRequest) -> tuple[str | None, str | None]:
    """The key and its signature to send: only what the client lacks (PROTOCOL 4.4, trap 14).

    Raises `KeyError` if the client holds a key that was never this project's.
    """
    current = signing.code_sign_key_text()
    if not request.code_sign_key:
        return current, None
    if request.code_sign_key.split() == current.split():
        return None, None
    signature = signing.rotation_signature(request.code_sign_key)
    if signature is None:
        raise KeyError(request.code_sign_key[:16])
    return current, signature


def project_part(config: ProjectConfig) -> dict[str, object]:
    """What every reply says of the project."""
    return {
        "scheduler_version": SCHEDULER_VERSION,
        "dont_use_dcf": True,
        "master_url": config.master_url,
        "request_delay": config.request_delay.total_seconds(),
        "project_name": config.name,
    }


def caller_part(caller: Caller, prefs_mod_times: Iterable[float]) -> dict[str, object]:
    """What a reply says of the account and the host."""
    part: dict[str, object] = {
        "userid": caller.account_id,
        "user_name": caller.name,
        "user_total_credit": caller.account_total_credit,
        "user_expavg_credit": caller.account_expavg_credit,
        "user_create_time": int(caller.account_created_at.timestamp()),
        "email_hash": _md5(caller.email),
        "cross_project_id": caller.cross_project_id,
        "external_cpid": _md5(caller.cross_project_id + caller.email),
        "project_preferences": caller.project_prefs or _PROJECT_PREFERENCES,
        "host_total_credit": caller.host_total_credit,
        "host_expavg_credit": caller.host_expavg_credit,
        "host_venue": caller.venue,
        "host_create_time": int(caller.host_created_at.timestamp()),
        "teamid": caller.team_id or 0,
        "team_name": caller.team_name or "",
    }
    if caller.assigned:
        part["hostid"] = caller.host_id
    if caller.global_prefs and caller.global_prefs_mod_time > max(prefs_mod_times):
        part["global_preferences"] = caller.global_prefs
    return part


def _md5(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def holdings_part(holdings: Holdings) -> dict[str, object]:
    """Which of its results the client is to drop."""
    return {
        "result_aborts": tuple(holdings.abort),
        "result_aborts_if_not_started": tuple(holdings.abort_if_not_started),
    }


def work_part(work: Work, config: ProjectConfig) -> dict[str, object]:
    """The apps, files, versions, workunits and results of a reply."""
    sent = work.sent
    if not sent:
        return {}
    used = {given.app_version_id: given.flops for given in sent}
    versions = [work.versions[version_id] for version_id in used]
    inputs = {
        file.name: messages.DownloadFile(
            name=file.name,
            urls=(config.master_url + storage.download_url_path(file.name),),
            nbytes=file.nbytes,
            md5_cksum=file.md5,
            sticky=file.sticky,
        )
        for file in work.inputs
    }
    programs = {file.name: _program(file, config) for file in work.version_files}
    return {
        "apps": tuple({version.app.id: _app(version) for version in versions}.values()),
        "files": tuple((inputs | programs).values()),
        "app_versions": tuple(
            _version(version, used[version.facts.id], work.version_files) for version in versions
        ),
        "workunits": tuple(_workunits(work)),
        "uploads": tuple(upload for given in sent for upload in _uploads(given, config)),
        "results": tuple(_result(given, work.versions[given.app_version_id]) for given in sent),
    }


def _program(file: VersionFile, config: ProjectConfig) -> messages.DownloadFile:
    return messages.DownloadFile(
        name=file.name,
        urls=(config.master_url + storage.download_url_path(file.name),),
        nbytes=file.nbytes,
        md5_cksum=file.md5,
        file_signature=file.signature,
        executable=file.executable,
    )


def _app(version: Version) -> messages.ReplyApp:
    return messages.ReplyApp(
        name=version.app.name,
        user_friendly_name=version.user_friendly_name or version.app.name,
        non_cpu_intensive=version.non_cpu_intensive,
        fraction_done_exact=version.fraction_done_exact,
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
        cmdline=version.cmdline or None,
        file_prefix=version.file_prefix or None,
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


def _workunits(work: Work) -> Iterable[messages.ReplyWorkunit]:
    refs: dict[int, list[messages.FileRef]] = {}
    for file in work.inputs:
        refs.setdefault(file.workunit_id, []).append(
            messages.FileRef(
                file_name=file.name, open_name=file.open_name or None, copy_file=file.copy_file
            )
        )
    for given in {given.workunit_id: given for given in work.sent}.values():
        version = work.versions[given.app_version_id]
        yield messages.ReplyWorkunit(
            name=given.workunit_name,
            app_name=version.app.name,
            version_num=version.facts.version_num,
            rsc_fpops_est=given.rsc_fpops_est,
            rsc_fpops_bound=given.rsc_fpops_bound,
            rsc_memory_bound=given.rsc_memory_bound,
            rsc_disk_bound=given.rsc_disk_bound,
            command_line=given.command_line or None,
            file_refs=tuple(refs.get(given.workunit_id, ())),
        )


def _uploads(given: Given, config: ProjectConfig) -> Iterable[messages.UploadFile]:
    for position, output in enumerate(given.outputs):
        name = output_name(given.result_name, given.result_id, position)
        max_nbytes = int(output["max_nbytes"])
        yield messages.UploadFile(
            name=name,
            urls=(config.upload_url,),
            max_nbytes=max_nbytes,
            xml_signature=signing.upload_grant(name, max_nbytes),
            sticky=bool(output.get("sticky")),
        )


def _result(given: Given, version: Version) -> messages.ReplyResult:
    return messages.ReplyResult(
        name=given.result_name,
        wu_name=given.workunit_name,
        report_deadline=given.report_deadline.timestamp(),
        platform=version.facts.platform,
        version_num=version.facts.version_num,
        plan_class=version.facts.plan_class,
        file_refs=tuple(
            messages.FileRef(
                file_name=output_name(given.result_name, given.result_id, position),
                open_name=output["open_name"],
                copy_file=bool(output.get("copy_file")),
                optional=bool(output.get("optional")),
            )
            for position, output in enumerate(given.outputs)
        ),
    )
