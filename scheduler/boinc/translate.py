"""Messages to facts: what a request says of host, wishes and results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from hashlib import md5
from typing import Any

from scheduler import signing
from scheduler.boinc.wire import messages, project_prefs
from scheduler.dispatch.facts import Work
from scheduler.dispatch.rules import estimates, homogeneous_redundancy
from scheduler.files.file_requests import is_file_move
from scheduler.hosts.facts import (
    HostDescription,
    HostFacts,
    Lesson,
    OwnVersion,
    Preferences,
    Report,
    Taste,
    Wish,
)
from scheduler.hosts.identity import Caller, Credentials
from scheduler.hosts.machines import Gpu, Machine
from scheduler.messages.facts import TrickleSaid, moment

#: A client asks for at most so much work at once (PROTOCOL 10.1).
MOST_SECONDS = 28 * 86400.0
_MOST_STDERR = 64 * 1024
_MOST_FEATURES = 4096
_CPID = re.compile(r"[0-9a-f]{32}")
_VERSION = re.compile(r"(\d+)\.(\d+)")
#: What clients call kinds of GPUs, and what plan classes call them.
_GPU_KINDS = {"NVIDIA": "nvidia", "ATI": "amd", "intel_gpu": "intel", "apple_gpu": "apple"}
GPU_TYPES = {kind: name for name, kind in _GPU_KINDS.items()}


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
        p_features=info.p_features[:_MOST_FEATURES],
        capabilities=_capabilities(request),
    )


def _capabilities(request: messages.SchedulerRequest) -> dict[str, Any]:
    """What is shown of a computer's special parts; empty for most."""
    info = request.host_info
    parts: dict[str, Any] = {
        "gpus": [_gpu(one).as_json() for one in request.coprocs],
        "virtualbox": info.virtualbox_version,
        "vm_extensions": not info.p_vm_extensions_disabled,
        "docker": info.docker_version,
        "wsl": info.wsl_available,
    }
    return {name: value for name, value in parts.items() if value}


def machine(
    request: messages.SchedulerRequest, described: HostDescription, prefs: Preferences
) -> Machine:
    """The computer as plan classes see it: what the project may use of it."""
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
        gpus=tuple(_gpu(one) for one in request.coprocs if one.count > 0),
    )


@lru_cache(maxsize=64)
def _features(text: str) -> frozenset[str]:
    """What a processor can do; there are far fewer kinds of processors than hosts."""
    return frozenset(text.lower().split())


def _gpu(one: messages.Coproc) -> Gpu:
    opencl = one.opencl
    return Gpu(
        kind=_GPU_KINDS.get(one.type, one.type),
        count=one.count,
        name=one.name,
        ram_bytes=one.total_memory
        or one.local_ram * 2.0**20
        or (opencl.global_mem_size if opencl else 0.0)
        or one.available_ram,
        peak_flops=one.peak_flops,
        driver_version=one.driver_version,
        cuda_version=one.cuda_version,
        compute_capability=100 * one.compute_capability_major + one.compute_capability_minor,
        opencl_version=_opencl_version(opencl.opencl_device_version) if opencl else 0,
        opencl_driver=opencl.opencl_driver_version if opencl else "",
    )


def _opencl_version(text: str) -> int:
    """``OpenCL 1.2 CUDA`` is 102; 0 if it says none."""
    found = _VERSION.search(text)
    return 100 * int(found[1]) + int(found[2]) if found else 0


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
    request: messages.SchedulerRequest,
    caller: Caller,
    described: HostDescription,
    *,
    held: Mapping[tuple[int, int | None], int],
    promised_bytes: int = 0,
) -> HostFacts:
    """The host as dispatch judges it."""
    prefs = preferences(request)
    wanted = project_prefs.decode(caller.project_prefs, caller.venue)
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
        held=held,
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


def _taste(request: messages.SchedulerRequest, wanted: project_prefs.ProjectPreferences) -> Taste:
    return Taste(
        likes=frozenset(request.user_keywords.yes) | frozenset(wanted.keywords_yes),
        dislikes=frozenset(request.user_keywords.no) | frozenset(wanted.keywords_no),
        selected_apps=frozenset(wanted.selected_apps),
        allow_other_apps=wanted.allow_other_apps,
        allow_beta=wanted.allow_beta,
        max_held=wanted.max_held or None,
        devices_off=frozenset(wanted.devices_off),
    )


def wishes(request: messages.SchedulerRequest, taste: Taste) -> tuple[Wish, ...]:
    """How much work the client wants for each device, GPUs first; nothing if its user wants none.

    A device that the volunteer has switched off for this project is asked nothing for.
    """
    if request.dont_send_work:
        return ()
    cpu = max(request.cpu_req_secs, request.work_req_seconds if not request.coprocs else 0.0)
    asked = [
        _wish(
            _GPU_KINDS.get(one.type, one.type), one.req_secs, one.req_instances, one.estimated_delay
        )
        for one in request.coprocs
    ]
    asked.append(_wish("", cpu, request.cpu_req_instances, request.estimated_delay))
    return tuple(wish for wish in asked if wish.anything and wish.device not in taste.devices_off)


def queued_seconds(request: messages.SchedulerRequest) -> dict[str, float]:
    """Return in how many seconds the first device of each kind is free; empty stands for CPUs."""
    queued = {
        _GPU_KINDS.get(one.type, one.type): max(0.0, one.estimated_delay) for one in request.coprocs
    }
    return {**queued, "": max(0.0, request.estimated_delay)}


def _wish(device: str, seconds: float, instances: float, delay: float) -> Wish:
    return Wish(
        device=device,
        seconds=min(MOST_SECONDS, max(0.0, seconds)),
        instances=max(0.0, instances),
        queued_seconds=max(0.0, delay),
    )


def platforms(request: messages.SchedulerRequest) -> tuple[str, ...]:
    """The client's platforms, best first."""
    return (request.platform_name, *request.alt_platforms)


def own_versions(request: messages.SchedulerRequest) -> tuple[OwnVersion, ...]:
    """The app versions of the volunteer's `app_info.xml`; none if the client has none."""
    if not request.is_anonymous:
        return ()
    return tuple(_own_version(version) for version in request.app_versions if version.app_name)


def _own_version(version: messages.ClientAppVersion) -> OwnVersion:
    gpu = next((one for one in version.coprocs if one.count > 0), None)
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


def held_names(request: messages.SchedulerRequest) -> list[str]:
    """The results that the client holds; files on their way are none of ours."""
    return [one.name for one in request.other_results if not is_file_move(one.name)]


def trickles(request: messages.SchedulerRequest) -> tuple[TrickleSaid, ...]:
    """What running results say."""
    return tuple(
        TrickleSaid(
            result_name=one.result_name,
            said_at=moment(one.time),
            variety=one.variety,
            text=one.text,
        )
        for one in request.trickles
    )


def new_cpid(request: messages.SchedulerRequest, caller: Caller) -> str | None:
    """The cross-project id to adopt: the client's, if its key may change the account."""
    sent = request.cross_project_id
    if caller.is_strong and sent != caller.cross_project_id and _CPID.fullmatch(sent):
        return sent
    return None


def may_be_from_account(request: messages.SchedulerRequest, caller: Caller) -> bool:
    """Return whether computing preferences in a request may be those of the caller's account.

    The client sends the hash of the account's address at the project that set them. BOINC's clients
    send the same preferences to all their projects, also to those with other accounts.
    """
    sent = request.global_prefs_source_email_hash
    own = md5(caller.email.encode(), usedforsecurity=False).hexdigest()
    return not sent or sent.lower() == own


def code_sign_key(request: messages.SchedulerRequest) -> tuple[str | None, str | None]:
    """The key and its signature to send: only what the client lacks (PROTOCOL 4.4, trap 14).

    Raises `KeyError` if the client holds a key that was never this project's.
    """
    current = signing.code_sign_key_text()
    if not request.code_sign_key:
        return current, None
    if request.code_sign_key == current or request.code_sign_key.split() == current.split():
        return None, None
    signature = signing.rotation_signature(request.code_sign_key)
    if signature is None:
        raise KeyError(request.code_sign_key[:16])
    return current, signature


def lessons(work: Work, reported: Mapping[int, Lesson]) -> list[Lesson]:
    """What the reports taught and what was sent, by app version."""
    both = dict(reported)
    for version_id, count in Counter([given.app_version_id for given in work.given]).items():
        known = both.get(version_id)
        quota = work.versions[version_id].facts.record.max_results_per_day
        both[version_id] = Lesson(
            app_version_id=version_id,
            sent=count,
            had_errors=known.had_errors if known else False,
            quota_before=known.quota_before if known else quota,
            quota_after=known.quota_after if known else quota,
        )
    return sorted(both.values(), key=lambda lesson: lesson.app_version_id)


def decision(
    work: Work, said: Iterable[messages.Message], *, now: datetime
) -> dict[str, Any] | None:
    """What a request for work came to, as it is kept with the host; None if none was asked for."""
    if not work.asked:
        return None
    return {
        "at": now.isoformat(timespec="seconds"),
        "given": len(work.given),
        "resent": len(work.resent),
        "refused": dict(work.refused),
        "sentences": dict(work.sentences),
        "said": [message.text for message in said],
    }
