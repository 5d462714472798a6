"""Composes a scheduler request from the state."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from volunteer.records import ClientState, HeldResult, Phase, Presence, Project, Verdict
from volunteer.wire.messages import (
    HeldName,
    OutputReport,
    ResultReport,
    SchedulerRequest,
    StickyFile,
)

if TYPE_CHECKING:
    from volunteer.config import Rules
    from volunteer.events import Ask


_HERE = (Presence.PRESENT, Presence.UPLOADED)


def compose_request(
    request: SchedulerRequest, project: Project, ask: Ask, rules: Rules
) -> SchedulerRequest:
    """Return the request with the results, app versions and trickles of a project.

    `request` must contain the account key, the host, the clock, the share and the preferences. The
    returned request reports finished results, lists all other results by name, and lists the sticky
    files of the project.
    """
    versions = tuple(project.app_versions.values())
    indices = {version.key: index for index, version in enumerate(versions)}
    return replace(
        request,
        hostid=project.hostid,
        rpc_seqno=ask.seqno,
        allow_multiple_clients=rules.allow_multiple_clients,
        active_queues=rules.active_queues,
        ignored_queues=rules.ignored_queues,
        work_seconds=ask.work_seconds,
        work_instances=ask.work_instances,
        estimated_delay=ask.estimated_delay,
        code_sign_key=project.code_sign_key,
        cross_project_id=project.account.cross_project_id,
        app_versions=versions,
        results=tuple(
            _report(held_result, project) for held_result in project.in_phase(Phase.REPORTABLE)
        ),
        other_results=tuple(
            HeldName(
                name, indices[project.version_of(held_result).key], held_result.offer.plan_class
            )
            for name, held_result in project.results.items()
            if held_result.phase != Phase.REPORTABLE
        ),
        sticky_files=tuple(
            StickyFile(name, file.nbytes or file.info.nbytes, int(file.presence in _HERE))
            for name, file in project.files.items()
            if file.info.sticky
        ),
        trickles=project.trickles_up,
    )


def _report(held_result: HeldResult, project: Project) -> ResultReport:
    verdict = held_result.verdict or Verdict(ClientState.UPLOADED, 0)
    return ResultReport(
        name=held_result.name,
        exit_status=verdict.exit_status,
        state=verdict.client_state,
        platform=held_result.offer.platform,
        version_num=held_result.offer.version_num,
        plan_class=held_result.offer.plan_class,
        terminated_status=verdict.terminated_status,
        cpu_time=held_result.cpu_time,
        elapsed_time=held_result.elapsed,
        peak_memory=held_result.peak_memory,
        peak_disk=held_result.peak_disk,
        message=verdict.message,
        stderr=held_result.stderr,
        outputs=tuple(_output(name, project) for name in held_result.outputs),
    )


def _output(name: str, project: Project) -> OutputReport:
    file = project.files[name]
    return OutputReport(
        name=name,
        nbytes=file.nbytes,
        max_nbytes=file.info.max_nbytes,
        md5=file.md5,
        upload_url=file.info.upload_urls[0],
        error="permanent upload error" if file.presence == Presence.FAILED else "",
    )
