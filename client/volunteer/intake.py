"""Merges a scheduler reply into the state of a project."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from volunteer.events import ClearSlot, Command, Discard, Kill, Print
from volunteer.names import NameSet, file_fault, name_fault, shared_name
from volunteer.preferences import take_preferences
from volunteer.records import (
    ClientState,
    HeldFile,
    HeldResult,
    Phase,
    Presence,
    Project,
    Role,
    State,
    Verdict,
    file_names,
    version_named,
)
from volunteer.signature import BadKeyError, read_hex_block, read_public_key, verifies_text
from volunteer.talk import take_trickle_urls, take_trickles
from volunteer.verdicts import ABORTED_BY_PROJECT, COULD_NOT_START

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from volunteer.wire.messages import AppVersion, FileInfo, FileRef, Reply, Result, Workunit

_NOT_STARTED = (Phase.FETCHING, Phase.READY)
# As many as one answer of a pool can have.
MAX_EARLY_ABORTS = 10_000
# The properties of a stored file that a later reply may set.
_MERGED = ("urls", "upload_urls", "signature", "grant", "sticky", "executable")


def take_reply(
    state: State, project: Project, reply: Reply, now: float
) -> tuple[State, Project, list[Command]]:
    """Merge a scheduler reply into a project, and return the new state, project and commands.

    The order of elements of different kinds in the reply has no effect.
    """
    commands: list[Command] = [Print(f"{_name(project, reply)}: {m.text}") for m in reply.messages]
    if reply.messages:
        project = replace(project, last_message=reply.messages[-1].text)
    if reply.hostid:
        state, project = _take_hostid(state, project, reply.hostid, now)
    project = _take_account(project, reply)
    state, more = take_preferences(state, project, reply, now)
    commands += more
    take_aborts = partial(_take_aborts, now=now)
    steps: tuple[Callable[[Project, Reply], tuple[Project, list[Command]]], ...]
    steps = (_take_key, _take_master_url, _take_acks, take_aborts, _take_deletions)
    for step in steps:
        project, more = step(project, reply)
        commands += more
    tasks_before = len(project.in_phase(*_NOT_STARTED))
    project, refusals = _take_science(project, reply)
    project, taken = _take_results(project, reply, refusals, now)
    new_tasks = len(project.in_phase(*_NOT_STARTED)) - tasks_before
    project, more = take_trickle_urls(project, reply)
    commands += more
    # Trickles follow the results, because a trickle may be for a result of the same reply.
    project, more = take_trickles(project, reply)
    commands += more
    if new_tasks:
        commands.append(Print(f"got {new_tasks} result{'s' if new_tasks != 1 else ''}"))
    return state, project, commands + taken


def _name(project: Project, reply: Reply) -> str:
    return reply.account.project_name or project.account.project_name or project.url


def _take_hostid(state: State, project: Project, hostid: int, now: float) -> tuple[State, Project]:
    """Store the host id, and reset the number of the next request to 0 (PROTOCOL 2.4).

    If the project has changed the host id, the client gets a new `host_cpid`.
    """
    if project.hostid not in {0, hostid}:
        seed = f"{state.host_cpid}{hostid}{now}".encode()
        state = replace(state, host_cpid=hashlib.md5(seed, usedforsecurity=False).hexdigest())
    return state, replace(project, hostid=hostid, rpc_seqno=0)


def _take_account(project: Project, reply: Reply) -> Project:
    account = reply.account
    return replace(
        project,
        account=account if account.project_name or account.userid else project.account,
        ended=reply.ended,
        has_no_cpu_apps=reply.no_cpu_apps,
        preferences=project.preferences
        if reply.project_preferences is None
        else reply.project_preferences,
        venue=project.venue if reply.host_venue is None else reply.host_venue,
    )


def _take_key(project: Project, reply: Reply) -> tuple[Project, list[Command]]:
    """Store the first code-sign key of a project, or a valid successor of the current key.

    If `_rotation_fault` refuses a new key, the current key is kept and a line is printed.
    """
    new = reply.code_sign_key
    if not new or new == project.code_sign_key:
        return project, []
    if not project.code_sign_key:
        return replace(project, code_sign_key=new), []
    fault = _rotation_fault(project, new, reply.code_sign_key_signature)
    if not fault:
        return replace(project, code_sign_key=new), []
    text = (
        f"{_name(project, reply)}: {fault}; keeping the old code-sign key. If the project confirms "
        "the change, detach and attach again."
    )
    return project, [Print(text)]


def _rotation_fault(project: Project, new: str, signature: str) -> str:
    """Return the reason why a new code-sign key is refused, or an empty string.

    The current key must have signed the new key. Files and keys are signed in the same way
    (PROTOCOL 4.2), so a signed file with the text of a key could replace the key. Therefore a key
    must have exactly the format in which projects write keys, and its signature must not be the
    signature of a file.
    """
    if not verifies_text(new, signature, project.code_sign_key):
        return "the new code-sign key is not signed by the old one"
    try:
        read_public_key(new, exact=True)
    except BadKeyError as error:
        return f"the new code-sign key is malformed ({error})"
    number = read_hex_block(signature)
    signatures = (file.info.signature for file in project.files.values() if file.info.signature)
    if any(read_hex_block(file_signature) == number for file_signature in signatures):
        return "the signature of the new code-sign key is also the signature of a file"
    return ""


def _take_master_url(project: Project, reply: Reply) -> tuple[Project, list[Command]]:
    if reply.master_url in {"", project.url}:
        return project, []
    text = (
        f"{_name(project, reply)} reports that its address is {reply.master_url}; "
        "detach and attach again with that address when convenient."
    )
    if project.reported_url == reply.master_url:
        return project, []
    return replace(project, reported_url=reply.master_url), [Print(text)]


def _take_acks(project: Project, reply: Reply) -> tuple[Project, list[Command]]:
    """Delete acknowledged results, and files that are no longer needed."""
    commands: list[Command] = []
    for name in reply.acks:
        held_result = project.results.get(name)
        if held_result is None or held_result.phase != Phase.REPORTABLE:
            continue
        results = {key: value for key, value in project.results.items() if key != name}
        project = replace(project, results=results)
        commands.append(Print(f"{name} reported"))
        if held_result.slot >= 0:
            commands.append(ClearSlot(held_result.slot))
    project, discarded = drop_unneeded(project)
    return project, commands + discarded


def drop_unneeded(project: Project) -> tuple[Project, list[Command]]:
    """Delete workunits without results, superseded app versions and unreferenced files.

    Sticky files are kept, and so are app versions that a result uses.
    """
    wanted = {held_result.offer.wu_name for held_result in project.results.values()}
    workunits = {name: workunit for name, workunit in project.workunits.items() if name in wanted}
    project = replace(project, workunits=workunits)
    # A refused result may have neither a workunit nor an app version here.
    used = {
        version_named(workunits[held_result.offer.wu_name], held_result.offer)
        for held_result in project.results.values()
        if held_result.offer.wu_name in workunits
    }
    versions = {
        key: version
        for key, version in project.app_versions.items()
        if key in used or not _superseded(version, project)
    }
    project = replace(project, app_versions=versions)
    needed = set(_names_in_use(project))
    files = {
        name: held_file
        for name, held_file in project.files.items()
        if name in needed or held_file.info.sticky
    }
    unneeded = [name for name in project.files if name not in files]
    return replace(project, files=files), [Discard(project.url, name) for name in unneeded]


def _superseded(version: AppVersion, project: Project) -> bool:
    return any(
        other.version_num > version.version_num
        and (other.app_name, other.platform, other.plan_class)
        == (version.app_name, version.platform, version.plan_class)
        for other in project.app_versions.values()
    )


def _names_in_use(project: Project, *, without: str = "") -> list[str]:
    """Return the names of the files of all results, app versions and workunits.

    `without` is the name of a result whose files are not included.
    """
    offers = (held_result.offer for name, held_result in project.results.items() if name != without)
    app_versions, workunits = project.app_versions.values(), project.workunits.values()
    return [*file_names(offers), *file_names(app_versions), *file_names(workunits)]


def _take_aborts(project: Project, reply: Reply, now: float) -> tuple[Project, list[Command]]:
    return abort_results(project, reply.aborts, reply.aborts_if_not_started, now)


def abort_results(
    project: Project, aborts: tuple[str, ...], aborts_if_not_started: tuple[str, ...], now: float
) -> tuple[Project, list[Command]]:
    """Abort the results that the project no longer needs (PROTOCOL 6.3).

    A result whose program has ended is reported as usual.
    """
    commands: list[Command] = []
    for name in aborts + aborts_if_not_started:
        held_result = project.results.get(name)
        if held_result is None:
            continue
        is_aborted = name in aborts
        if held_result.phase in _NOT_STARTED and (is_aborted or held_result.starts == 0):
            verdict = Verdict(ClientState.ABORTED, ABORTED_BY_PROJECT)
            project = project.with_result(held_result.as_reportable(verdict, now))
        elif is_aborted and held_result.phase == Phase.RUNNING and held_result.verdict is None:
            message = "aborted by project - no longer usable"
            verdict = Verdict(ClientState.ABORTED, ABORTED_BY_PROJECT, message)
            project = project.with_result(replace(held_result, verdict=verdict))
            grace = project.workunit_of(held_result).max_termination_time
            commands.append(Kill(project.url, name, grace))
        else:
            continue
        commands.append(Print(f"{name} aborted: the project no longer needs it"))
    return project, commands


def remember_aborts(project: Project, names: tuple[str, ...]) -> Project:
    """Remember the cancellations of results that have not been received yet.

    The long poll can be faster than the scheduler's reply with the result. Results that never
    arrive have names here too, so at most `MAX_EARLY_ABORTS` names are kept.
    """
    new = dict.fromkeys(name for name in names if name not in project.results)
    kept = [name for name in project.early_aborts if name not in new]
    return replace(project, early_aborts=(*kept, *new)[-MAX_EARLY_ABORTS:])


def abort_early(project: Project, now: float) -> tuple[Project, list[Command]]:
    """Abort the received results that were cancelled before they arrived."""
    names = tuple(name for name in project.early_aborts if name in project.results)
    if not names:
        return project, []
    left = tuple(name for name in project.early_aborts if name not in project.results)
    return abort_results(replace(project, early_aborts=left), names, (), now)


def _take_deletions(project: Project, reply: Reply) -> tuple[Project, list[Command]]:
    """Clear the sticky flag of the files in `deleted_files`, and delete unneeded files."""
    for name in reply.deleted_files:
        held_file = project.files.get(name)
        if held_file is not None:
            project = project.with_file(
                replace(held_file, info=replace(held_file.info, sticky=False))
            )
    return drop_unneeded(project) if reply.deleted_files else (project, [])


@dataclass(slots=True)
class _Refusals:
    """The reasons why files, workunits and app versions of a reply were refused.

    The keys are file names, workunit names and the keys of app versions.
    """

    files: dict[str, str] = field(default_factory=dict)
    workunits: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    #: The same reasons as in `versions` by app name, for a result without a version number.
    apps: dict[str, str] = field(default_factory=dict)


def _take_science(project: Project, reply: Reply) -> tuple[Project, _Refusals]:
    """Add the valid files, app versions and workunits of a reply to the project.

    Returns the project and the refusals. App versions and workunits that are already stored keep
    their files. Roles are assigned in the order program, input, output, and not in the order of the
    reply. Therefore a file that is listed both as a program and as an input becomes a program.
    """
    refusals = _Refusals()
    project = _take_files(_with_roles(project), reply, refusals)
    versions = dict(project.app_versions)
    for version in reply.app_versions:
        held_version = versions.get(version.key)
        if held_version is not None:
            # The speed of a stored version may change, but its files may not.
            versions[version.key] = replace(version, file_refs=held_version.file_refs)
            continue
        fault = _refs_fault(project, version.file_refs, Role.PROGRAM, refusals)
        if fault:
            refusals.versions[version.key] = refusals.apps[version.app_name] = fault
        elif all(ref.file_name in project.files for ref in version.file_refs):
            versions[version.key] = version
            project = _give_role(project, [version], Role.PROGRAM)
    workunits = dict(project.workunits)
    for workunit in reply.workunits:
        if workunit.name in workunits:
            continue
        fault = _refs_fault(project, workunit.file_refs, Role.INPUT, refusals)
        if fault:
            refusals.workunits[workunit.name] = fault
        else:
            workunits[workunit.name] = workunit
            project = _give_role(project, [workunit], Role.INPUT)
    return replace(project, app_versions=versions, workunits=workunits), refusals


def _take_files(project: Project, reply: Reply, refusals: _Refusals) -> Project:
    files = dict(project.files)
    taken = NameSet(files)
    for info in reply.files:
        held_file = files.get(info.name)
        fault = file_fault(info.name)
        if not fault and held_file is not None:
            fault = _change_fault(held_file, info)
        elif not fault and (other := taken.clash(info.name)):
            fault = f"{info.name!r} and {other!r} are the same name on some disks"
        if fault:
            refusals.files[info.name] = fault
        else:
            files[info.name] = _merge(held_file, info)
            taken.add(info.name)
    return replace(project, files=files)


def _change_fault(held_file: HeldFile, info: FileInfo) -> str:
    """Return the reason why a new description of a stored file is refused, or an empty string.

    A file name must always have the same content. Otherwise a later reply could replace a program.
    """
    name, before = info.name, held_file.info
    if held_file.presence != Presence.FAILED and before.md5 and info.md5 and before.md5 != info.md5:
        return f"{name!r} has a different MD5 than before"
    sizes = {before.nbytes, info.nbytes} - {0}
    if held_file.presence != Presence.FAILED and len(sizes) > 1:
        return f"{name!r} has a different size than before"
    if info.upload_urls and held_file.role in {Role.PROGRAM, Role.INPUT}:
        return f"{name!r} is the name of {_described(held_file.role)}, not of an output"
    return ""


def _with_roles(project: Project) -> Project:
    """Assign roles to the files of a state that an earlier version of the client wrote."""
    offers = [held_result.offer for held_result in project.results.values()]
    project = _give_role(project, project.app_versions.values(), Role.PROGRAM)
    project = _give_role(project, project.workunits.values(), Role.INPUT)
    return _give_role(project, offers, Role.OUTPUT)


def _give_role(
    project: Project, owners: Iterable[AppVersion | Workunit | Result], role: Role
) -> Project:
    """Assign a role to each file of the owners that has no role yet.

    A file that becomes a program is downloaded again unless its signature was verified.
    """
    changed = {}
    for name in file_names(owners):
        held_file = project.files.get(name)
        if held_file is None or held_file.role != Role.NONE:
            continue
        presence = held_file.presence
        if role == Role.PROGRAM and presence == Presence.PRESENT and not held_file.signed_sha256:
            presence = Presence.ABSENT
        changed[name] = replace(held_file, role=role, presence=presence)
    return replace(project, files={**project.files, **changed}) if changed else project


def _refs_fault(
    project: Project, refs: tuple[FileRef, ...], role: Role, refusals: _Refusals
) -> str:
    """Return the reason why files may not have a role or their slot names, or an empty string.

    A missing file description is not a reason, because `_missing` discards the result later.
    """
    for ref in refs:
        name = ref.file_name
        fault = refusals.files.get(name) or file_fault(name) or name_fault(ref.slot_name)
        if fault:
            return fault
        held_file = project.files.get(name)
        if held_file is not None and held_file.role not in {Role.NONE, role}:
            return (
                f"{name!r} is the name of {_described(held_file.role)}, not of {_described(role)}"
            )
    if shared := shared_name(ref.slot_name for ref in refs):
        return f"two files have the name {shared!r} in the slot"
    return ""


def _described(role: Role) -> str:
    return {Role.PROGRAM: "a program's file", Role.INPUT: "an input"}.get(role, "an output")


def _merge(held_file: HeldFile | None, info: FileInfo) -> HeldFile:
    """Return a file with the addresses, signatures and flags of a new description.

    A stored file keeps its size and MD5, unless its transfer has failed permanently.
    """
    if held_file is None:
        return HeldFile(info)
    if held_file.presence == Presence.FAILED:
        return HeldFile(info, role=held_file.role)
    merged = {name: getattr(info, name) or getattr(held_file.info, name) for name in _MERGED}
    return replace(held_file, info=replace(held_file.info, **merged))


def _take_results(
    project: Project, reply: Reply, refusals: _Refusals, now: float
) -> tuple[Project, list[Command]]:
    commands: list[Command] = []
    outputs = {
        ref.file_name: name
        for name, held_result in project.results.items()
        for ref in held_result.offer.file_refs
    }
    for offer in reply.results:
        held_result = project.results.get(offer.name)
        if held_result is not None:
            updated = replace(held_result.offer, report_deadline=offer.report_deadline)
            project = project.with_result(replace(held_result, offer=updated))
            continue
        resolved = _resolve(project, offer)
        refused = _refused(project, resolved, refusals, outputs)
        missing = "" if refused else _missing(project, resolved)
        if refused:
            # The result is reported as failed, because the project would send a discarded result
            # again.
            commands.append(Print(f"{offer.name} refused: {refused}"))
            project = project.with_result(_refuse(resolved, refused, now))
        elif missing:
            commands.append(Print(f"{offer.name} discarded: {missing}"))
        else:
            project = _give_role(project, [resolved], Role.OUTPUT)
            project = project.with_result(HeldResult(resolved, received_at=now))
            outputs.update((ref.file_name, offer.name) for ref in resolved.file_refs)
    return project, commands


def _refuse(offer: Result, reason: str, now: float) -> HeldResult:
    verdict = Verdict(ClientState.COMPUTE_ERROR, COULD_NOT_START, f"couldn't start app: {reason}")
    # The outputs are removed, because their names may belong to other files.
    offer = replace(offer, file_refs=())
    return HeldResult(offer, phase=Phase.REPORTABLE, received_at=now, verdict=verdict, ready_at=now)


def _refused(project: Project, offer: Result, refusals: _Refusals, outputs: dict[str, str]) -> str:
    """Return the reason why a result must not be computed, or an empty string.

    `outputs` maps the names of the output files of all stored results to the names of the results.
    """
    if offer.wu_name in refusals.workunits:
        return refusals.workunits[offer.wu_name]
    workunit = project.workunits.get(offer.wu_name)
    if workunit is not None and version_named(workunit, offer) not in project.app_versions:
        key = version_named(workunit, offer)
        return refusals.versions.get(key) or (
            "" if offer.version_num else refusals.apps.get(workunit.app_name, "")
        )
    if fault := _refs_fault(project, offer.file_refs, Role.OUTPUT, refusals):
        return fault
    for ref in offer.file_refs:
        if ref.file_name in outputs:
            return f"the output {ref.file_name!r} also belongs to {outputs[ref.file_name]}"
    return slot_fault(project, offer) if workunit is not None else ""


def slot_fault(project: Project, offer: Result) -> str:
    """Return the reason why the files of a result cannot be in one slot, or an empty string.

    The project must have the workunit and the app version of the result.
    """
    version = project.app_versions[version_named(project.workunits[offer.wu_name], offer)]
    if version.file_prefix and (fault := name_fault(version.file_prefix)):
        return f"the file prefix of its app version is not valid: {fault}"
    refs = version.file_refs + project.input_refs(offer) + project.output_refs(offer)
    for ref in refs:
        if fault := file_fault(ref.file_name) or name_fault(ref.slot_name):
            return fault
    if shared := shared_name(ref.slot_name for ref in refs):
        return f"two files have the name {shared!r} in the slot"
    if shared := shared_name(ref.file_name for ref in offer.file_refs):
        return f"two outputs have the name {shared!r}"
    return ""


def output_fault(project: Project, offer: Result) -> str:
    """Return a message if an output of a result would overwrite another file, else "".

    This function is called before each start. A result with such an output is refused when it
    arrives, but a state that an earlier version of the client wrote may contain such a result.
    """
    taken = NameSet(_names_in_use(project, without=offer.name))
    for ref in offer.file_refs:
        if other := taken.clash(ref.file_name):
            return f"the output {ref.file_name!r} would overwrite {other!r}"
    return ""


def _resolve(project: Project, offer: Result) -> Result:
    """Return the offer with the newest matching app version if its own version is not stored.

    Without a matching app version, the offer is returned unchanged.
    """
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
    """Return a description of a missing part of a result, or an empty string."""
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
        if ref.file_name not in project.files:
            return f"the project sent no usable description of the file {ref.file_name!r}"
    return ""
