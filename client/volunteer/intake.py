"""What a scheduler reply changes in what we hold of its project [pure]."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from volunteer.events import ClearSlot, Command, Discard, Kill, Say
from volunteer.records import (
    ClientState,
    HeldFile,
    HeldResult,
    Phase,
    Presence,
    Project,
    State,
    Verdict,
    version_named,
)
from volunteer.signature import verifies_text
from volunteer.verdicts import ABORTED_BY_PROJECT
from volunteer.wire.replies import is_safe_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from volunteer.wire.messages import AppVersion, FileInfo, Reply, Result

_NOT_STARTED = (Phase.FETCHING, Phase.READY)


def take_reply(
    state: State, project: Project, reply: Reply, now: float
) -> tuple[State, Project, list[Command]]:
    """Merge a reply into a project; the order of its elements does not matter."""
    said: list[Command] = [Say(f"{_name(project, reply)}: {m.text}") for m in reply.messages]
    if reply.messages:
        project = replace(project, last_message=reply.messages[-1].text)
    if reply.hostid:
        state, project = _take_hostid(state, project, reply.hostid, now)
    project = _take_account(project, reply)
    for step in (_take_key, _take_master_url, _take_acks, _take_aborts, _take_deletions):
        project, more = step(project, reply, now)
        said += more
    project = _take_science(project, reply)
    known = len(project.results)
    project, more = _take_results(project, reply, now)
    given = len(project.results) - known
    if given:
        said.append(Say(f"got {given} result{'s' if given != 1 else ''}"))
    return state, project, said + more


def _name(project: Project, reply: Reply) -> str:
    return reply.account.project_name or project.account.project_name or project.url


def _take_hostid(state: State, project: Project, hostid: int, now: float) -> tuple[State, Project]:
    """Take the number of this computer; numbering of requests begins anew (PROTOCOL 2.4)."""
    if project.hostid not in {0, hostid}:
        seed = f"{state.host_cpid}{hostid}{now}".encode()
        state = replace(state, host_cpid=hashlib.md5(seed, usedforsecurity=False).hexdigest())
    return state, replace(project, hostid=hostid, rpc_seqno=0)


def _take_account(project: Project, reply: Reply) -> Project:
    account = reply.account
    if not account.project_name:
        account = project.account if not account.userid else account
    return replace(
        project,
        account=account,
        ended=reply.ended,
        has_no_cpu_apps=reply.no_cpu_apps,
        preferences=project.preferences
        if reply.project_preferences is None
        else reply.project_preferences,
        venue=project.venue if reply.host_venue is None else reply.host_venue,
    )


def _take_key(project: Project, reply: Reply, now: float) -> tuple[Project, list[Command]]:
    """Trust the first code-sign key; another one only if the one we have signed it."""
    del now
    new = reply.code_sign_key
    if not new or new == project.code_sign_key:
        return project, []
    if not project.code_sign_key or verifies_text(
        new, reply.code_sign_key_signature, project.code_sign_key
    ):
        return replace(project, code_sign_key=new), []
    text = (
        f"{_name(project, reply)}: the new code-sign key is not signed by the old one; "
        "keeping the old one. If the project confirms the change, detach and attach again."
    )
    return project, [Say(text)]


def _take_master_url(project: Project, reply: Reply, now: float) -> tuple[Project, list[Command]]:
    del now
    if reply.master_url in {"", project.url}:
        return project, []
    text = (
        f"{_name(project, reply)} says that its address is {reply.master_url}; "
        "detach and attach with that one when convenient."
    )
    return project, [Say(text)] if project.last_message != text else []


def _take_acks(project: Project, reply: Reply, now: float) -> tuple[Project, list[Command]]:
    """Drop what the project has taken, and the files that nobody needs any more."""
    del now
    said: list[Command] = []
    for name in reply.acks:
        held = project.results.get(name)
        if held is None or held.phase != Phase.REPORTABLE:
            continue
        results = {key: value for key, value in project.results.items() if key != name}
        project = replace(project, results=results)
        said.append(Say(f"{name} reported"))
        if held.slot >= 0:
            said.append(ClearSlot(held.slot))
    project, discarded = drop_unneeded(project)
    return project, said + discarded


def drop_unneeded(project: Project) -> tuple[Project, list[Command]]:
    """Forget workunits, superseded app versions and files that nothing refers to."""
    wanted = {held.offer.wu_name for held in project.results.values()}
    workunits = {name: found for name, found in project.workunits.items() if name in wanted}
    project = replace(project, workunits=workunits)
    used = {project.version_of(held).key for held in project.results.values()}
    versions = {
        key: version
        for key, version in project.app_versions.items()
        if key in used or not _superseded(version, project)
    }
    project = replace(project, app_versions=versions)
    needed = set(_names_needed(project))
    gone = [
        name for name, held in project.files.items() if name not in needed and not held.info.sticky
    ]
    files = {name: held for name, held in project.files.items() if name not in set(gone)}
    return replace(project, files=files), [Discard(project.url, name) for name in gone]


def _superseded(version: AppVersion, project: Project) -> bool:
    return any(
        other.version_num > version.version_num
        and (other.app_name, other.platform, other.plan_class)
        == (version.app_name, version.platform, version.plan_class)
        for other in project.app_versions.values()
    )


def _names_needed(project: Project) -> Iterator[str]:
    for version in project.app_versions.values():
        yield from (ref.file_name for ref in version.file_refs)
    for workunit in project.workunits.values():
        yield from (ref.file_name for ref in workunit.file_refs)
    for held in project.results.values():
        yield from (ref.file_name for ref in held.offer.file_refs)


def _take_aborts(project: Project, reply: Reply, now: float) -> tuple[Project, list[Command]]:
    """Stop what the project no longer wants (PROTOCOL 6.3)."""
    said: list[Command] = []
    for name in reply.aborts + reply.aborts_if_not_started:
        held = project.results.get(name)
        if held is None:
            continue
        not_started = held.phase in _NOT_STARTED and held.starts == 0
        if not_started or (name in reply.aborts and held.phase in _NOT_STARTED):
            verdict = Verdict(ClientState.ABORTED, ABORTED_BY_PROJECT)
            ended = replace(held, phase=Phase.REPORTABLE, verdict=verdict, ready_at=now)
            project = project.with_result(ended)
        elif name in reply.aborts and held.phase == Phase.RUNNING and held.verdict is None:
            message = "aborted by project - no longer usable"
            verdict = Verdict(ClientState.ABORTED, ABORTED_BY_PROJECT, message)
            project = project.with_result(replace(held, verdict=verdict))
            said.append(Kill(project.url, name))
        else:
            continue
        said.append(Say(f"{name} aborted: the project no longer needs it"))
    return project, said


def _take_deletions(project: Project, reply: Reply, now: float) -> tuple[Project, list[Command]]:
    """Let sticky files go that the project names."""
    del now
    for name in reply.deleted_files:
        held = project.files.get(name)
        if held is not None:
            project = project.with_file(replace(held, info=replace(held.info, sticky=False)))
    return drop_unneeded(project) if reply.deleted_files else (project, [])


def _take_science(project: Project, reply: Reply) -> Project:
    """Take files, app versions and workunits; what is known by name stays as it is."""
    for info in reply.files:
        if is_safe_name(info.name):
            project = project.with_file(_merge(project.files.get(info.name), info))
    versions = dict(project.app_versions)
    for version in reply.app_versions:
        known = versions.get(version.key)
        if known is not None:
            # A known version takes new speeds, never new files: names are immutable.
            versions[version.key] = replace(version, file_refs=known.file_refs)
        elif all(_usable(project, ref.file_name, ref.slot_name) for ref in version.file_refs):
            versions[version.key] = version
    workunits = {unit.name: unit for unit in reply.workunits} | project.workunits
    return replace(project, app_versions=versions, workunits=workunits)


def _merge(known: HeldFile | None, info: FileInfo) -> HeldFile:
    """Merge what a reply says of a file we know: addresses and signatures, never its hash."""
    if known is None or known.presence == Presence.FAILED:
        return HeldFile(info)
    merged = replace(
        known.info,
        urls=info.urls or known.info.urls,
        upload_urls=info.upload_urls or known.info.upload_urls,
        signature=info.signature or known.info.signature,
        grant=info.grant or known.info.grant,
        sticky=info.sticky or known.info.sticky,
        executable=info.executable or known.info.executable,
    )
    return replace(known, info=merged)


def _usable(project: Project, file_name: str, slot_name: str) -> bool:
    return file_name in project.files and is_safe_name(slot_name)


def _take_results(project: Project, reply: Reply, now: float) -> tuple[Project, list[Command]]:
    said: list[Command] = []
    for offer in reply.results:
        known = project.results.get(offer.name)
        if known is not None:
            later = replace(known.offer, report_deadline=offer.report_deadline)
            project = project.with_result(replace(known, offer=later))
            continue
        resolved = _resolve(project, offer)
        trouble = _missing(project, resolved)
        if trouble:
            said.append(Say(f"{offer.name} discarded: {trouble}"))
        else:
            project = project.with_result(HeldResult(resolved, received_at=now))
    return project, said


def _resolve(project: Project, offer: Result) -> Result:
    """Choose the version of a result that names no platform: the newest without a plan class."""
    workunit = project.workunits.get(offer.wu_name)
    if workunit is None or version_named(workunit, offer) in project.app_versions:
        return offer
    fitting = [
        version
        for version in project.app_versions.values()
        if version.app_name == workunit.app_name
        and version.plan_class == offer.plan_class
        and (not offer.platform or offer.platform == version.platform or not version.platform)
        and offer.version_num in {0, version.version_num}
    ]
    if not fitting:
        return offer
    newest = max(fitting, key=lambda version: version.version_num)
    return replace(offer, platform=newest.platform, version_num=newest.version_num)


def _missing(project: Project, offer: Result) -> str:
    """Say what the reply left out that the result needs; empty if nothing."""
    workunit = project.workunits.get(offer.wu_name)
    if workunit is None:
        return f"the project sent no workunit {offer.wu_name}"
    version = project.app_versions.get(version_named(workunit, offer))
    if version is None:
        return (
            f"no app version {offer.version_num} of {workunit.app_name} for "
            f"{offer.platform or 'this platform'}, plan class {offer.plan_class!r}"
        )
    if not version.file_refs:
        return "its app has no program"
    for ref in workunit.file_refs + offer.file_refs:
        if not _usable(project, ref.file_name, ref.slot_name):
            return f"the project sent no usable description of the file {ref.file_name!r}"
    return ""
