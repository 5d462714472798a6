"""Converts a decoded request to facts about the host, results and requested work."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from hashlib import md5
from typing import Any, NamedTuple

from scheduler import signing
from scheduler.boinc.wire import computing_prefs, messages, project_prefs, stored_prefs
from scheduler.dispatch.facts import HostFacts, OwnVersion, Taste, Work, WorkRequest
from scheduler.dispatch.rules import estimates, homogeneous_redundancy
from scheduler.files.file_requests import is_file_move
from scheduler.hosts.facts import HostDescription, Preferences, RecordUpdate, Report
from scheduler.hosts.identity import Caller, Credentials
from scheduler.hosts.machines import Gpu, Machine
from scheduler.messages.facts import ReceivedTrickle, moment

#: The maximum time of work per request and device; longer requests are reduced (PROTOCOL 10.1).
MAX_WORK_SECONDS = 28 * 86400.0
_MAX_STDERR_LENGTH = 64 * 1024
_MAX_FEATURES_LENGTH = 4096
_CPID = re.compile(r"[0-9a-f]{32}")
_VERSION = re.compile(r"(\d+)\.(\d+)")
#: The name of each kind of GPU in plan classes, by its name in requests.
_GPU_KINDS = {"NVIDIA": "nvidia", "ATI": "amd", "intel_gpu": "intel", "apple_gpu": "apple"}
GPU_TYPES = {kind: name for name, kind in _GPU_KINDS.items()}


def credentials(request: messages.SchedulerRequest) -> Credentials:
    """Return the fields that identify the account and the host."""
    return Credentials(
        key=request.authenticator.strip(),
        host_id=max(0, request.hostid),
        rpc_seqno=max(0, request.rpc_seqno),
        holds_results=bool(request.other_results),
        allow_multiple_clients=request.allow_multiple_clients,
    )


def description(request: messages.SchedulerRequest, ip_addr: str) -> HostDescription:
    """Return the client's description of the computer, limited to values that can be stored.

    `ip_addr` is used if the request does not contain an address.
    """
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
        p_features=info.p_features[:_MAX_FEATURES_LENGTH],
        capabilities=_capabilities(request),
    )


def _capabilities(request: messages.SchedulerRequest) -> dict[str, Any]:
    """Return the host's GPUs, VirtualBox, Docker and WSL for display, without empty values."""
    info = request.host_info
    parts: dict[str, Any] = {
        "gpus": [_gpu(coproc).as_json() for coproc in request.coprocs],
        "virtualbox": info.virtualbox_version,
        "vm_extensions": not info.p_vm_extensions_disabled,
        "docker": info.docker_version,
        "wsl": info.wsl_available,
    }
    return {name: value for name, value in parts.items() if value}


def machine(
    request: messages.SchedulerRequest, described: HostDescription, prefs: Preferences
) -> Machine:
    """Return the resources of the computer that the project may use, for plan classes."""
    info = request.host_info
    return Machine(
        ncpus=estimates.usable_cpus(described, prefs),
        fpops=described.p_fpops,
        memory_bytes=estimates.usable_memory(described, prefs),
        p_vendor=info.p_vendor,
        p_model=info.p_model,
        p_features=_features(info.p_features),
        os_name=info.os_name,
        os_version=info.os_version,
        client_version=request.client_version,
        virtualbox_version=info.virtualbox_version,
        vm_extensions=not info.p_vm_extensions_disabled,
        docker_version="" if request.dont_use_docker else info.docker_version,
        wsl=info.wsl_available,
        gpus=tuple(_gpu(coproc) for coproc in request.coprocs if coproc.count > 0),
    )


@lru_cache(maxsize=64)  # there are far fewer processor models than hosts
def _features(text: str) -> frozenset[str]:
    return frozenset(text.lower().split())


def _gpu(coproc: messages.Coproc) -> Gpu:
    opencl = coproc.opencl
    return Gpu(
        kind=_GPU_KINDS.get(coproc.type, coproc.type),
        count=coproc.count,
        name=coproc.name,
        ram_bytes=coproc.total_memory
        or coproc.local_ram * 2.0**20
        or (opencl.global_mem_size if opencl else 0.0)
        or coproc.available_ram,
        peak_flops=coproc.peak_flops,
        driver_version=coproc.driver_version,
        cuda_version=coproc.cuda_version,
        compute_capability=100 * coproc.compute_capability_major + coproc.compute_capability_minor,
        opencl_version=_opencl_version(opencl.opencl_device_version) if opencl else 0,
        opencl_driver=opencl.opencl_driver_version if opencl else "",
    )


def _opencl_version(text: str) -> int:
    """Return an OpenCL version as 100 * major + minor, or 0 if the text has no version.

    For example, the version is 102 for ``OpenCL 1.2 CUDA``.
    """
    match = _VERSION.search(text)
    return 100 * int(match[1]) + int(match[2]) if match else 0


def _fraction(value: float) -> float:
    return min(1.0, max(0.0, value))


def preferences(request: messages.SchedulerRequest) -> Preferences:
    """Return the volunteer's limits on processors, memory and disk."""
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
    request: messages.SchedulerRequest,
    caller: Caller,
    described: HostDescription,
    *,
    held_counts: Mapping[tuple[int, int | None], int],
    promised_bytes: int = 0,
) -> HostFacts:
    """Return the facts of the host for dispatch.

    `held_counts` and `promised_bytes` are the attributes of `lost_results.Holdings`.
    """
    prefs = preferences(request)
    wanted = _with_own_limits(project_prefs.decode(caller.project_prefs, caller.venue), caller)
    ncpus = estimates.usable_cpus(described, prefs)
    if wanted.max_cpus:
        ncpus = max(1, min(ncpus, wanted.max_cpus))
    return HostFacts(
        id=caller.host_id,
        account_id=caller.account_id,
        team_id=caller.team_id,
        ncpus=ncpus,
        fpops=described.p_fpops,
        memory_bytes=estimates.usable_memory(described, prefs),
        disk_bytes=estimates.usable_disk(described, prefs),
        bandwidth=described.n_bwdown,
        active_fraction=estimates.active_fraction(described),
        gpu_active_fraction=estimates.gpu_active_fraction(described),
        max_in_progress=caller.max_in_progress,
        held_counts=held_counts,
        promised_bytes=promised_bytes,
        hr_classes={
            hr_type: homogeneous_redundancy.hr_class(
                hr_type,
                os_name=described.os_name,
                p_vendor=described.p_vendor,
                p_model=described.p_model,
            )
            for hr_type in (1, 2)
        },
        machine=machine(request, described, prefs),
        taste=_taste(request, wanted),
        near_files=frozenset(file.name for file in request.sticky_files if file.status >= 0),
        is_anonymous=request.is_anonymous,
    )


def _with_own_limits(
    wanted: project_prefs.ProjectPreferences, caller: Caller
) -> project_prefs.ProjectPreferences:
    """Return the preferences with the limits that the owner set for this computer."""
    max_held, max_cpus = caller.own_max_held, caller.own_max_cpus
    if max_held is None and max_cpus is None:
        return wanted
    return replace(
        wanted,
        max_held=wanted.max_held if max_held is None else max_held,
        max_cpus=wanted.max_cpus if max_cpus is None else max_cpus,
    )


def _taste(request: messages.SchedulerRequest, wanted: project_prefs.ProjectPreferences) -> Taste:
    return Taste(
        likes=frozenset(request.user_keywords.yes) | frozenset(wanted.keywords_yes),
        dislikes=frozenset(request.user_keywords.no) | frozenset(wanted.keywords_no),
        selected_apps=frozenset(wanted.selected_apps),
        allow_other_apps=wanted.allow_other_apps,
        allow_beta=wanted.allow_beta,
        max_held=wanted.max_held or None,
        devices_off=frozenset(wanted.devices_off),
        active_queues=frozenset(request.active_queues),
        ignored_queues=frozenset(request.ignored_queues),
    )


def work_requests(request: messages.SchedulerRequest, taste: Taste) -> tuple[WorkRequest, ...]:
    """Return the work requested for each kind of device, GPUs first.

    The tuple is empty if the client accepts no work.  Devices for which no work is requested, and
    devices that the volunteer has disabled for this project, are left out.
    """
    if request.dont_send_work:
        return ()
    cpu = max(request.cpu_req_secs, request.work_req_seconds if not request.coprocs else 0.0)
    candidates = [
        _work_request(
            _GPU_KINDS.get(coproc.type, coproc.type),
            coproc.req_secs,
            coproc.req_instances,
            coproc.estimated_delay,
        )
        for coproc in request.coprocs
    ]
    candidates.append(_work_request("", cpu, request.cpu_req_instances, request.estimated_delay))
    return tuple(
        candidate
        for candidate in candidates
        if candidate.anything and candidate.device not in taste.devices_off
    )


def queued_seconds(request: messages.SchedulerRequest) -> dict[str, float]:
    """Return, for each kind of device, the seconds until a device becomes idle.

    The key for CPUs is an empty string.
    """
    queued = {
        _GPU_KINDS.get(coproc.type, coproc.type): max(0.0, coproc.estimated_delay)
        for coproc in request.coprocs
    }
    return {**queued, "": max(0.0, request.estimated_delay)}


def _work_request(device: str, seconds: float, instances: float, delay: float) -> WorkRequest:
    return WorkRequest(
        device=device,
        seconds=min(MAX_WORK_SECONDS, max(0.0, seconds)),
        instances=max(0.0, instances),
        queued_seconds=max(0.0, delay),
    )


def platforms(request: messages.SchedulerRequest) -> tuple[str, ...]:
    """Return the client's platforms, best first."""
    return (request.platform_name, *request.alt_platforms)


def own_versions(request: messages.SchedulerRequest) -> tuple[OwnVersion, ...]:
    """Return the app versions in the volunteer's `app_info.xml`, if there is such a file."""
    if not request.is_anonymous:
        return ()
    return tuple(_own_version(version) for version in request.app_versions if version.app_name)


def _own_version(version: messages.ClientAppVersion) -> OwnVersion:
    gpu = next((coproc for coproc in version.coprocs if coproc.count > 0), None)
    return OwnVersion(
        app_name=version.app_name,
        version_num=version.version_num,
        platform=version.platform,
        plan_class=version.plan_class,
        avg_ncpus=version.avg_ncpus if version.avg_ncpus > 0 or gpu else 1.0,
        flops=max(0.0, version.flops),
        device=_GPU_KINDS.get(gpu.type, gpu.type) if gpu else "",
        device_count=gpu.count if gpu else 0.0,
    )


def reports(request: messages.SchedulerRequest) -> tuple[Report, ...]:
    """Return the reports of finished results, with the last 64 Ki characters of `stderr_out`."""
    return tuple(
        Report(
            name=result.name,
            client_state=result.state,
            exit_status=result.exit_status,
            terminated_status=result.terminated_status,
            cpu_time=result.final_cpu_time,
            elapsed_time=result.final_elapsed_time,
            peak_working_set_bytes=result.final_peak_working_set_size,
            peak_swap_bytes=result.final_peak_swap_size,
            peak_disk_bytes=result.final_peak_disk_usage,
            stderr=result.stderr_out[-_MAX_STDERR_LENGTH:],
        )
        for result in request.results
    )


def listed_names(request: messages.SchedulerRequest) -> list[str]:
    """Return the names of the results on the client, except results that only move a file."""
    return [result.name for result in request.other_results if not is_file_move(result.name)]


class _Everything(frozenset[str]):
    """A set that contains every name."""

    def __contains__(self, name: object) -> bool:
        return True


def reported_names(request: messages.SchedulerRequest) -> frozenset[str]:
    """Return the names of the reported results, which must not count as lost.

    The names in reports beyond `max_results_accepted` are not read.  If there are such reports, the
    returned set contains every name, so that no result counts as lost.
    """
    if request.further_results:
        return _Everything()
    return frozenset(result.name for result in request.results)


def trickles(request: messages.SchedulerRequest) -> tuple[ReceivedTrickle, ...]:
    """Return the trickle-up messages of running results."""
    return tuple(
        ReceivedTrickle(
            result_name=trickle.result_name,
            said_at=moment(trickle.time),
            variety=trickle.variety,
            text=trickle.text,
        )
        for trickle in request.trickles
    )


def new_cpid(request: messages.SchedulerRequest, caller: Caller) -> str | None:
    """Return the client's cross-project id if it must be stored, else None.

    The id is stored if it is valid, differs from the account's id, and the request has a strong
    key.
    """
    sent = request.cross_project_id
    if caller.is_strong and sent != caller.cross_project_id and _CPID.fullmatch(sent):
        return sent
    return None


def new_preferences(request: messages.SchedulerRequest, caller: Caller) -> tuple[str, float] | None:
    """Return the client's computing preferences and their time if they are to be stored, else None.

    The preferences are stored if they are newer than those of the account, may have been set in
    this account (`may_be_from_account`), can be sent to other clients, and the request has a
    strong key.
    """
    prefs, mod_time = request.global_preferences, request.global_preferences_mod_time
    if (
        caller.is_strong
        and prefs
        and mod_time > caller.global_prefs_mod_time
        and may_be_from_account(request, caller)
        and (text := stored_prefs.sendable(prefs, computing_prefs.FORMAT))
    ):
        return text, mod_time
    return None


def may_be_from_account(request: messages.SchedulerRequest, caller: Caller) -> bool:
    """Return True if a request's computing preferences may have been set in the caller's account.

    The client sends the hash of the e-mail address of the account in which they were set.  BOINC's
    clients send the same preferences to all projects, including projects where the volunteer uses
    another address.
    """
    sent = request.global_prefs_source_email_hash
    own = md5(caller.email.encode(), usedforsecurity=False).hexdigest()
    return not sent or sent.lower() == own


class CodeSignKey(NamedTuple):
    """A code-signing key to send, and its signature by the client's older key.

    A field that is None is not sent.
    """

    text: str | None = None
    signature: str | None = None


def code_sign_key(request: messages.SchedulerRequest) -> CodeSignKey | None:
    """Return the code-signing key to send, or None if the client has an unknown key.

    A key is unknown if this project never used it.

    A client without a key gets the current key without a signature.  A client with an older key
    gets the current key, signed with the older one (PROTOCOL 4.4, trap 14).  A client with the
    current key gets no key.
    """
    current = signing.code_sign_key_text()
    if not request.code_sign_key:
        return CodeSignKey(current)
    if request.code_sign_key == current or request.code_sign_key.split() == current.split():
        return CodeSignKey()
    signature = signing.rotation_signature(request.code_sign_key)
    return None if signature is None else CodeSignKey(current, signature)


def record_updates(work: Work, reported: Mapping[int, RecordUpdate]) -> list[RecordUpdate]:
    """Return the updates of the host's record of each app version, ordered by app version id.

    An update combines the number of results sent with the update from the reports.
    """
    by_version = dict(reported)
    for version_id, count in Counter([result.app_version_id for result in work.assigned]).items():
        from_reports = by_version.get(version_id)
        quota = work.versions[version_id].facts.record.max_results_per_day
        by_version[version_id] = RecordUpdate(
            app_version_id=version_id,
            sent=count,
            reported=from_reports.reported if from_reports else 0,
            errors=from_reports.errors if from_reports else 0,
            quota_before=from_reports.quota_before if from_reports else quota,
            quota_after=from_reports.quota_after if from_reports else quota,
        )
    return sorted(by_version.values(), key=lambda update: update.app_version_id)


def decision(
    work: Work, reply_messages: Iterable[messages.Message], *, now: datetime
) -> dict[str, Any] | None:
    """Return the outcome of a work request, or None if no work was requested.

    It is stored in `last_decisions` of the host, and `hosts.host_lists` reads the keys.
    """
    if not work.asked_for_work:
        return None
    return {
        "at": now.isoformat(timespec="seconds"),
        "given": len(work.assigned),
        "resent": len(work.resent),
        "refused": dict(work.refused),
        "sentences": dict(work.sentences),
        "said": [message.text for message in reply_messages],
    }
