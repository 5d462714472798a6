"""Encodes scheduler requests as XML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from volunteer.wire.computing import write_preferences
from volunteer.wire.xml import block, encode, leaf, leaves

if TYPE_CHECKING:
    from volunteer.wire.messages import (
        AppVersion,
        HeldName,
        HostFacts,
        OutputReport,
        ResultReport,
        SchedulerRequest,
        StickyFile,
        TrickleMessage,
    )

# The version of BOINC's client whose behavior is implemented. Projects refuse old versions.
CORE_VERSION = (8, 0, 0)
CORE_VERSION_TEXT = ".".join(map(str, CORE_VERSION))
MAX_STDERR_LENGTH = 63_000


def encode_request(request: SchedulerRequest) -> bytes:
    """Return a scheduler request with BOINC's order of elements (PROTOCOL 2.1)."""
    used = request.disk_used
    content = "".join(
        (
            _identity(request),
            _work_request(request),
            block("working_global_preferences", write_preferences(request.preferences)),
            _master_preferences(request),
            leaf("cross_project_id", request.cross_project_id),
            _time_stats(request),
            host_info(request.host),
            block(
                "disk_usage",
                leaves(
                    d_boinc_used_total=used,
                    d_boinc_used_project=used,
                    d_project_share=request.host.disk_free * 0.9,
                ),
            ),
            *map(_result, request.results),
            *map(_trickle, request.trickles),
            *map(_sticky_file, request.sticky_files),
            block("app_versions", "".join(map(_app_version, request.app_versions))),
            block("other_results", "".join(map(_other_result, request.other_results))),
            leaf("client_brand", "Manyhands volunteer"),
            *(leaf("active_queue", name) for name in request.active_queues),
            *(leaf("ignored_queue", name) for name in request.ignored_queues),
        )
    )
    return encode("\n" + block("scheduler_request", content))


def encode_trickle_request(request: SchedulerRequest, trickle: TrickleMessage) -> bytes:
    """Return the short request that sends one trickle to an address of `<trickle_up_urls>`."""
    platform = leaf("platform_name", request.host.platform)
    return encode(block("scheduler_request", _identity(request) + platform + _trickle(trickle)))


def version_lines() -> str:
    """Return the three version elements of every request."""
    return leaves(
        core_client_major_version=CORE_VERSION[0],
        core_client_minor_version=CORE_VERSION[1],
        core_client_release=CORE_VERSION[2],
    )


def _identity(request: SchedulerRequest) -> str:
    numbers = leaves(
        authenticator=request.authenticator, hostid=request.hostid, rpc_seqno=request.rpc_seqno
    )
    return numbers + version_lines()


def _work_request(request: SchedulerRequest) -> str:
    content = leaves(
        resource_share_fraction=request.share,
        rrs_fraction=request.share,
        prrs_fraction=request.share,
        duration_correction_factor=1.0,
        allow_multiple_clients=request.allow_multiple_clients,
        sandbox=0,
        dont_send_work=0,
        work_req_seconds=request.work_seconds,
        cpu_req_secs=request.work_seconds,
        cpu_req_instances=request.work_instances,
        estimated_delay=request.estimated_delay,
        client_cap_plan_class=1,
        platform_name=request.host.platform,
    )
    for name in request.host.alt_platforms:
        content += block("alt_platform", leaf("name", name))
    if request.code_sign_key:
        content += f"<code_sign_key>\n{request.code_sign_key}\n</code_sign_key>\n"
    return content


def _master_preferences(request: SchedulerRequest) -> str:
    """Return the XML of the received preferences, or an empty string if they are not sent."""
    if not request.master_preferences:
        return ""
    return f"<global_preferences>\n{request.master_preferences}\n</global_preferences>\n" + leaf(
        "global_prefs_source_email_hash", request.preferences_email_hash
    )


def _time_stats(request: SchedulerRequest) -> str:
    up = max(0.0, request.now - request.started_at)
    content = leaves(
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
    """Return the XML of this computer's description, which is also part of `init_data.xml`."""
    content = leaves(
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
        docker_version=host.container_engine or None,
    )
    return block("host_info", content)


def _result(report: ResultReport) -> str:
    content = leaves(
        name=report.name,
        final_cpu_time=float(report.cpu_time),
        final_elapsed_time=float(report.elapsed_time),
        exit_status=report.exit_status,
        terminated_status=report.terminated_status,
        state=report.state,
        platform=report.platform,
        version_num=report.version_num,
        plan_class=report.plan_class or None,
        final_peak_working_set_size=report.peak_memory or None,
        final_peak_disk_usage=report.peak_disk or None,
        app_version_num=report.version_num,
    )
    content += _stderr_out(report) + "".join(map(_output, report.outputs))
    return block("result", content)


def _stderr_out(report: ResultReport) -> str:
    """Return the XML element of a result's stderr, with the message and stderr as CDATA."""
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
    """Return a text without control characters, in which `]]>` and `</stderr_out` are escaped.

    The CDATA block ends at `]]>`. Parsers that search for the end tag would end the element at
    `</stderr_out`.
    """
    return _printable(text).replace("]]>", "]]&gt;").replace("</stderr_out", "&lt;/stderr_out")


def _printable(text: str) -> str:
    return "".join(character for character in text if character in "\t\n" or character >= " ")


def _output(output: OutputReport) -> str:
    content = leaves(
        name=output.name,
        nbytes=float(output.nbytes),
        max_nbytes=float(output.max_nbytes),
        md5_cksum=output.md5,
        upload_url=output.upload_url,
        error_msg=output.error or None,
    )
    return block("file_info", content)


def _trickle(trickle: TrickleMessage) -> str:
    """Return the XML of a trickle up, whose text is XML that the program wrote.

    Tags in the text that could end the element or the request are escaped.
    """
    text = _printable(trickle.text)
    for name in ("msg_from_host", "scheduler_request"):
        text = re.sub(rf"<(/?\s*{name})", r"&lt;\1", text, flags=re.IGNORECASE)
    content = leaves(result_name=trickle.result_name, time=trickle.time)
    return block("msg_from_host", f"{content}{text}\n")


def _sticky_file(file: StickyFile) -> str:
    return block("file_info", leaves(name=file.name, nbytes=float(file.nbytes), status=file.status))


def _app_version(version: AppVersion) -> str:
    content = leaves(
        app_name=version.app_name,
        version_num=version.version_num,
        platform=version.platform,
        plan_class=version.plan_class or None,
        avg_ncpus=float(version.avg_ncpus),
        flops=float(version.flops),
        api_version=version.api_version or None,
    )
    return block("app_version", content)


def _other_result(other: HeldName) -> str:
    content = leaves(
        name=other.name, app_version=other.app_version, plan_class=other.plan_class or None
    )
    return block("other_result", content)
