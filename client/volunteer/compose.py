"""Composes a scheduler request from the state [pure]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from volunteer.records import (
    ClientState,
    HeldResult,
    Phase,
    Presence,
    Project,
    Verdict,
)
from volunteer.wire.computing import DEFAULT_PREFERENCES, GlobalPreferences
from volunteer.wire.messages import (
    HeldName,
    HostFacts,
    OutputReport,
    ResultReport,
    SchedulerRequest,
    StickyFile,
    TrickleReport,
)

if TYPE_CHECKING:
    from volunteer.config import Rules
    from volunteer.events import Ask


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The inputs of a request that are not in the project: the host, the clock, the disk usage.

    `disk_used` is in bytes. `share` is the part of this computer that the project gets.
    `preferences` are those in force, `master_preferences` those that the account has for all its
    computers.
    """

    host: HostFacts
    now: float
    started_at: float
    disk_used: float
    share: float = 1.0
    preferences: GlobalPreferences = DEFAULT_PREFERENCES
    master_preferences: str = ""
    preferences_email_hash: str = ""


def compose_request(
    project: Project, ask: Ask, context: RequestContext, rules: Rules
) -> SchedulerRequest:
    """Return the request: it reports all finished results and lists all other results."""
    reported = project.in_phase(Phase.REPORTABLE)
    names = {held_result.offer.name for held_result in reported}
    versions = tuple(project.app_versions.values())
    indices = {version.key: index for index, version in enumerate(versions)}
    return SchedulerRequest(
        authenticator=project.key,
        host=context.host,
        hostid=project.hostid,
        rpc_seqno=ask.seqno,
        allow_multiple_clients=rules.allow_multiple_clients,
        work_seconds=ask.work_seconds,
        work_instances=ask.work_instances,
        estimated_delay=ask.estimated_delay,
        preferences=context.preferences,
        master_preferences=context.master_preferences,
        preferences_email_hash=context.preferences_email_hash,
        code_sign_key=project.code_sign_key,
        cross_project_id=project.account.cross_project_id,
        now=context.now,
        started_at=context.started_at,
        disk_used=context.disk_used,
        app_versions=versions,
        results=tuple(_report(held_result, project) for held_result in reported),
        other_results=tuple(
            HeldName(
                name, indices[project.version_of(held_result).key], held_result.offer.plan_class
            )
            for name, held_result in project.results.items()
            if name not in names
        ),
        sticky_files=tuple(
            StickyFile(name, file.nbytes or file.info.nbytes, int(_is_here(file.presence)))
            for name, file in project.files.items()
            if file.info.sticky
        ),
        trickles=tuple(
            TrickleReport(trickle.result_name, trickle.time, trickle.text)
            for trickle in project.trickles_up
        ),
        share=context.share,
    )


def _is_here(presence: Presence) -> bool:
    return presence in {Presence.PRESENT, Presence.UPLOADED}


def _report(held_result: HeldResult, project: Project) -> ResultReport:
    verdict = held_result.verdict or Verdict(ClientState.UPLOADED, 0)
    return ResultReport(
        name=held_result.offer.name,
        exit_status=verdict.exit_status,
        state=verdict.client_state,
        platform=held_result.offer.platform,
        version_num=held_result.offer.version_num,
        plan_class=held_result.offer.plan_class,
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
