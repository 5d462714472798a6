"""Encodes scheduler requests as XML [pure]."""

from __future__ import annotations

import re
from itertools import starmap
from typing import TYPE_CHECKING

from volunteer.wire.computing import write_preferences
from volunteer.wire.xml import block, encode, escape, leaf

if TYPE_CHECKING:
    from volunteer.wire.messages import (
        AppVersion,
        HeldName,
        HostFacts,
        OutputReport,
        ResultReport,
        SchedulerRequest,
        StickyFile,
        TrickleReport,
    )

# The version of BOINC's client whose behavior is implemented; projects refuse old versions.
CORE_VERSION = (8, 0, 0)
CORE_VERSION_TEXT = ".".join(map(str, CORE_VERSION))
MAX_STDERR_LENGTH = 63_000


def encode_request(request: SchedulerRequest) -> bytes:
    """Write a scheduler request in the order of BOINC's own client (PROTOCOL 2.1)."""
    content = "".join(
        (
            _identity(request),
            _work_request(request),
            block("working_global_preferences", write_preferences(request.preferences)),
            _master_preferences(request),
            leaf("cross_project_id", request.cross_project_id),
            _time_stats(request),
            host_info(request.host),
            block("disk_usage", _disk_usage(request)),
            "".join(map(_result, request.results)),
            "".join(map(_trickle, request.trickles)),
            "".join(map(_sticky_file, request.sticky_files)),
            block("app_versions", "".join(map(_app_version, request.app_versions))),
            block("other_results", "".join(map(_other_result, request.other_results))),
            leaf("client_brand", "Manyhands volunteer"),
        )
    )
    return encode("\n" + block("scheduler_request", content))


def _leaves(**values: object) -> str:
    return "".join(starmap(leaf, values.items()))


def version_lines() -> str:
    """Return the three version elements of every request."""
    return _leaves(
        core_client_major_version=CORE_VERSION[0],
        core_client_minor_version=CORE_VERSION[1],
        core_client_release=CORE_VERSION[2],
    )


def _identity(request: SchedulerRequest) -> str:
    head = _leaves(
        authenticator=request.authenticator,
        hostid=request.hostid,
        rpc_seqno=request.rpc_seqno,
    )
    shares = _leaves(
        resource_share_fraction=request.share,
        rrs_fraction=request.share,
        prrs_fraction=request.share,
        duration_correction_factor=1.0,
        allow_multiple_clients=request.allow_multiple_clients,
        sandbox=0,
        dont_send_work=request.dont_send_work,
    )
    return head + version_lines() + shares


def _work_request(request: SchedulerRequest) -> str:
    host = request.host
    content = _leaves(
        work_req_seconds=request.work_seconds,
        cpu_req_secs=request.work_seconds,
        cpu_req_instances=request.work_instances,
        estimated_delay=request.estimated_delay,
        client_cap_plan_class=1,
        platform_name=host.platform,
    )
    for name in host.alt_platforms:
        content += block("alt_platform", leaf("name", name))
    if request.code_sign_key:
        content += f"<code_sign_key>\n{request.code_sign_key}\n</code_sign_key>\n"
    return content


def _master_preferences(request: SchedulerRequest) -> str:
    """Write the preferences that a project sent, for another host of the same account."""
    if not request.master_preferences:
        return ""
    return f"<global_preferences>\n{request.master_preferences}\n</global_preferences>\n" + leaf(
        "global_prefs_source_email_hash", request.preferences_email_hash
    )


def _trickle(trickle: TrickleReport) -> str:
    """Return a trickle up; its text is XML of the program and must not end the element."""
    text = "".join(sign for sign in trickle.text if sign in "\t\n" or sign >= " ")
    for name in ("msg_from_host", "scheduler_request"):
        text = re.sub(rf"<(/?\s*{name})", r"&lt;\1", text, flags=re.IGNORECASE)
    content = _leaves(result_name=trickle.result_name, time=trickle.time)
    return block("msg_from_host", f"{content}{text}\n")


def encode_trickle_request(request: SchedulerRequest, trickle: TrickleReport) -> bytes:
    """Return the short request that sends one trickle to an address of `<trickle_up_urls>`."""
    head = _leaves(
        authenticator=request.authenticator,
        hostid=request.hostid,
        rpc_seqno=request.rpc_seqno,
    )
    platform = leaf("platform_name", request.host.platform)
    content = head + version_lines() + platform + _trickle(trickle)
    return encode(block("scheduler_request", content))


def _time_stats(request: SchedulerRequest) -> str:
    up = max(0.0, request.now - request.started_at)
    content = _leaves(
        on_frac=1.0,
        connected_frac=1.0,
        cpu_and_network_available_frac=1.0,
        active_frac=1.0,
        gpu_active_frac=1.0,
        client_start_time=request.started_at,
        total_start_time=request.started_at,
        total_duration=up,
        total_active_duration=up,
        total_gpu_active_duration=0.0,
        now=request.now,
        previous_uptime=0.0,
        session_active_duration=up,
        session_gpu_active_duration=0.0,
    )
    return block("time_stats", content)


def host_info(host: HostFacts) -> str:
    """Return the description of this computer, which is also part of `init_data.xml`."""
    content = _leaves(
        timezone=host.timezone,
        domain_name=host.domain_name,
        ip_addr=host.ip_addr,
        host_cpid=host.host_cpid,
        p_ncpus=host.ncpus,
        p_vendor=host.vendor,
        p_model=host.model,
        p_features=host.features,
        p_fpops=host.fpops,
        p_iops=host.iops,
        p_membw=host.membw,
        p_calculated=host.benchmarked_at,
        p_vm_extensions_disabled=0,
        m_nbytes=host.memory,
        m_cache=host.cache,
        m_swap=host.swap,
        d_total=host.disk_total,
        d_free=host.disk_free,
        os_name=host.os_name,
        os_version=host.os_version,
        n_usable_coprocs=0,
    )
    if host.container_engine:
        content += leaf("docker_version", host.container_engine)
    return block("host_info", content)


def _disk_usage(request: SchedulerRequest) -> str:
    return _leaves(
        d_boinc_used_total=request.disk_used,
        d_boinc_used_project=request.disk_used,
        d_project_share=request.host.disk_free * 0.9,
    )


def _result(report: ResultReport) -> str:
    content = _leaves(
        name=report.name,
        final_cpu_time=float(report.cpu_time),
        final_elapsed_time=float(report.elapsed_time),
        exit_status=report.exit_status,
        state=report.state,
        platform=report.platform,
        version_num=report.version_num,
    )
    if report.plan_class:
        content += leaf("plan_class", report.plan_class)
    if report.peak_memory:
        content += leaf("final_peak_working_set_size", report.peak_memory)
    if report.peak_disk:
        content += leaf("final_peak_disk_usage", report.peak_disk)
    content += leaf("app_version_num", report.version_num)
    content += _stderr_out(report) + "".join(map(_output, report.outputs))
    return block("result", content)


def _stderr_out(report: ResultReport) -> str:
    """Return message and stderr in one CDATA block that its content cannot end."""
    content = leaf("core_client_version", CORE_VERSION_TEXT)
    inner = ""
    if report.message:
        inner += f"<message>\n{_harmless(report.message)}</message>\n"
    if report.stderr:
        inner += f"<stderr_txt>\n{_harmless(report.stderr[-MAX_STDERR_LENGTH:])}\n</stderr_txt>\n"
    if inner:
        content += f"<![CDATA[\n{inner}]]>\n"
    return block("stderr_out", content)


def _harmless(text: str) -> str:
    """Return a text that ends neither the CDATA block nor, for line readers, its element."""
    plain = "".join(character for character in text if character in "\t\n" or character >= " ")
    return plain.replace("]]>", "]]&gt;").replace("</stderr_out", "&lt;/stderr_out")


def _output(output: OutputReport) -> str:
    content = _leaves(
        name=output.name,
        nbytes=float(output.nbytes),
        max_nbytes=float(output.max_nbytes),
        md5_cksum=output.md5,
        upload_url=output.upload_url,
    )
    if output.error:
        content += f"<error_msg>{escape(output.error)}</error_msg>\n"
    return block("file_info", content)


def _sticky_file(file: StickyFile) -> str:
    content = _leaves(name=file.name, nbytes=float(file.nbytes), status=file.status)
    return block("file_info", content)


def _app_version(version: AppVersion) -> str:
    content = _leaves(
        app_name=version.app_name,
        version_num=version.version_num,
        platform=version.platform,
    )
    if version.plan_class:
        content += leaf("plan_class", version.plan_class)
    content += _leaves(avg_ncpus=float(version.avg_ncpus), flops=float(version.flops))
    if version.api_version:
        content += leaf("api_version", version.api_version)
    return block("app_version", content)


def _other_result(other: HeldName) -> str:
    content = _leaves(name=other.name, app_version=other.app_version)
    if other.plan_class:
        content += leaf("plan_class", other.plan_class)
    return block("other_result", content)
