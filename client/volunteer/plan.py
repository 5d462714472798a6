"""Plans the next commands at each tick from the state."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from volunteer.config import DAY, Rules
from volunteer.dispatch import Step
from volunteer.events import (
    Ask,
    ClaimWork,
    Command,
    Event,
    Fetch,
    Kill,
    Print,
    ReadMasterPage,
    Replicate,
    Resume,
    Run,
    Suspend,
    Tick,
    Upload,
)
from volunteer.records import (
    ClientState,
    HeldFile,
    HeldResult,
    Phase,
    Presence,
    Project,
    State,
    Verdict,
    file_names,
)
from volunteer.verdicts import NOT_STARTED_BY_DEADLINE, TIME_LIMIT, download_verdict, upload_verdict

MASTER_AFTER_FAILURES = 10
_UNFINISHED = (Phase.FETCHING, Phase.READY, Phase.RUNNING)
Planner = Callable[[State, Project, Tick, Rules], Step]


def next_commands(state: State, tick: Tick, rules: Rules) -> Step:
    """Return the new state and the commands that can begin now.

    `busy` of the new state contains the downloads, uploads, starts and contacts in progress.
    """
    commands: list[Command] = []
    for url in state.projects:
        for planner in _PLANNERS:
            state, more = planner(state, state.projects[url], tick, rules)
            commands += more
    return state, commands


def _settle(state: State, project: Project, tick: Tick, rules: Rules) -> Step:
    """Update the phase of results after their downloads and uploads.

    A result that has not started before its report deadline is aborted.
    """
    commands: list[Command] = []
    for held_result in project.in_phase(Phase.FETCHING, Phase.READY, Phase.UPLOADING):
        settle = _settle_outputs if held_result.phase == Phase.UPLOADING else _settle_inputs
        moved, text = settle(project, held_result, tick.now)
        if moved is held_result:
            continue
        project = project.with_result(moved)
        if text:
            commands.append(Print(text))
        if moved.verdict is not None and moved.verdict.client_state != ClientState.UPLOADED:
            project = after_error(project, tick, rules)
    return state.with_project(project), commands


def after_error(project: Project, event: Event, rules: Rules) -> Project:
    """Return the project with a delayed next work request after a failed result.

    Reports are not delayed.
    """
    errors = project.errors + 1
    wait = rules.sleep_after_failure if rules.pool else rules.rpc_backoff(errors, event.chance)
    retry_at = event.now + wait
    return replace(project, errors=errors, work_retry_at=max(project.work_retry_at, retry_at))


def _settle_inputs(project: Project, held_result: HeldResult, now: float) -> tuple[HeldResult, str]:
    verdict = download_verdict(held_result, project)
    if verdict is None and held_result.starts == 0 and 0 < held_result.offer.report_deadline < now:
        verdict = Verdict(ClientState.ABORTED, NOT_STARTED_BY_DEADLINE, "not started by deadline")
    if verdict is not None:
        reason = verdict.message.partition("\n")[0].rstrip(":")
        return held_result.as_reportable(verdict, now), f"{held_result.name} failed: {reason}"
    here = all(
        project.files[ref.file_name].presence == Presence.PRESENT
        for ref in project.inputs_of(held_result)
    )
    phase = Phase.READY if here else Phase.FETCHING
    return (held_result if phase == held_result.phase else replace(held_result, phase=phase)), ""


def _settle_outputs(
    project: Project, held_result: HeldResult, now: float
) -> tuple[HeldResult, str]:
    files = [project.files[name] for name in held_result.outputs]
    if any(file.presence == Presence.PRESENT for file in files):
        return held_result, ""
    failed = [file for file in files if file.presence == Presence.FAILED]
    if failed and held_result.verdict is not None:
        text = f"{held_result.name} failed: the project refused its output permanently"
        return held_result.as_reportable(upload_verdict(failed, held_result.verdict), now), text
    return held_result.as_reportable(held_result.verdict, now), f"{held_result.name} uploaded"


def _fetch(state: State, project: Project, tick: Tick, rules: Rules) -> Step:
    """Start downloads in the order of the report deadlines of their results.

    Sticky files that no result needs are downloaded last.
    """
    commands: list[Command] = []
    signed = _names_to_sign(project)
    for held_result in project.in_phase(Phase.FETCHING):
        for ref in project.inputs_of(held_result):
            work = f"fetch {project.url} {ref.file_name}"
            if work in state.busy or not _may_fetch(project.files[ref.file_name], tick.now):
                continue
            if _count(state, f"fetch {project.url} ") >= rules.downloads_per_project:
                return state, commands
            if _count(state, "fetch ") >= rules.max_transfers:
                return state, commands
            state = state.starting(work)
            commands.append(Fetch(project.url, ref.file_name, ref.file_name in signed))
    for name, file in project.files.items():
        # Sticky files that no result needs are downloaded one at a time.
        is_put = file.info.sticky and file.info.urls and _may_fetch(file, tick.now)
        if is_put and not _count(state, f"fetch {project.url} "):
            state = state.starting(f"fetch {project.url} {name}")
            commands.append(Fetch(project.url, name, name in signed))
    return state, commands


def _names_to_sign(project: Project) -> set[str]:
    """Return the names of the files that must be signed.

    These are executable files and all files of app versions.
    """
    executable = {name for name, held_file in project.files.items() if held_file.info.executable}
    return executable.union(file_names(project.app_versions.values()))


def _may_fetch(held_file: HeldFile, now: float) -> bool:
    return held_file.presence == Presence.ABSENT and held_file.retry_at <= now


def _count(state: State, prefix: str) -> int:
    return sum(work.startswith(prefix) for work in state.busy)


def _run(state: State, project: Project, tick: Tick, rules: Rules) -> Step:
    """Resume suspended results and start ready results while processors are free.

    The result with the earliest report deadline is first.
    """
    commands: list[Command] = []
    if project.is_suspended or state.paused:
        return state, commands
    for held_result in project.in_phase(Phase.RUNNING):
        if held_result.is_suspended and has_free_processors(state, project, held_result, rules):
            running = replace(held_result, is_suspended=False, running_since=tick.now)
            project = project.with_result(running)
            state = state.with_project(project)
            commands += [
                Resume(project.url, held_result.name),
                Print(f"{held_result.name} resumed"),
            ]
    for held_result in project.in_phase(Phase.READY):
        work = f"run {project.url} {held_result.name}"
        if work in state.busy or held_result.postponed_until > tick.now:
            continue
        if waits_for_list(project, held_result):
            continue
        # Later results of the project wait too, or small results could delay a large one for ever.
        if not (
            has_free_processors(state, project, held_result, rules)
            and has_free_memory(state, project, held_result, rules)
        ):
            break
        slot = held_result.slot if held_result.slot >= 0 else _free_slot(state)
        project = project.with_result(replace(held_result, slot=slot))
        state = state.with_project(project).starting(work)
        commands.append(Run(project.url, held_result.name, slot, fresh=held_result.starts == 0))
    return state, commands


def _suspend(state: State, project: Project, tick: Tick, _rules: Rules) -> Step:
    """Suspend the programs of a suspended project, or all programs if the state is paused.

    The elapsed time of a result does not include the suspension.
    """
    commands: list[Command] = []
    if not project.is_suspended and not state.paused:
        return state, commands
    for held_result in project.in_phase(Phase.RUNNING):
        if held_result.is_suspended:
            continue
        elapsed = held_result.elapsed_at(tick.now)
        paused = replace(held_result, is_suspended=True, elapsed=elapsed, running_since=0.0)
        project = project.with_result(paused)
        commands += [Suspend(project.url, held_result.name), Print(f"{held_result.name} suspended")]
    return state.with_project(project), commands


def has_free_processors(
    state: State, project: Project, held_result: HeldResult, rules: Rules
) -> bool:
    """Return whether the processors for a result are free.

    If no processor is in use, a result may use more processors than the rules allow.
    """
    taken = processors_taken(state)
    return not taken or taken + project.processors_of(held_result) <= rules.slots


def has_free_memory(state: State, project: Project, held_result: HeldResult, rules: Rules) -> bool:
    """Return whether the memory that a result may use is free.

    If no result runs, a result may use more memory than the rules allow, so that a computer with
    little memory computes one result at a time. Suspended results are counted otherwise, because
    they stay in memory.
    """
    if not rules.memory_bytes or not processors_taken(state):
        return True
    taken = sum(
        other.workunit_of(running).rsc_memory_bound
        for other, running in state.all_results()
        if running.phase == Phase.RUNNING or f"run {other.url} {running.name}" in state.busy
    )
    return taken + project.workunit_of(held_result).rsc_memory_bound <= rules.memory_bytes


def waits_for_list(project: Project, held_result: HeldResult) -> bool:
    """Return whether an earlier result of the same task list is not finished on this computer."""
    bundle, place = held_result.offer.bundle, held_result.offer.bundle_place
    return bundle > 0 and any(
        other.offer.bundle == bundle and other.offer.bundle_place < place
        for other in project.in_phase(*_UNFINISHED)
    )


def processors_taken(state: State) -> float:
    """Return the number of processors in use by running and starting results.

    Suspended results are not counted.
    """
    return sum(
        project.processors_of(held_result)
        for project, held_result in state.all_results()
        if (held_result.phase == Phase.RUNNING and not held_result.is_suspended)
        or f"run {project.url} {held_result.name}" in state.busy
    )


def _free_slot(state: State) -> int:
    taken = {held_result.slot for _, held_result in state.all_results()}
    return next(number for number in range(len(taken) + 1) if number not in taken)


def _limit(state: State, project: Project, tick: Tick, rules: Rules) -> Step:
    """Stop results that exceed their time limit."""
    commands: list[Command] = []
    for held_result in project.in_phase(Phase.RUNNING):
        bound = project.workunit_of(held_result).rsc_fpops_bound
        flops = project.version_of(held_result).flops or 1e9
        limit = rules.time_limit(bound, flops)
        if held_result.verdict is None and held_result.elapsed_at(tick.now) > limit:
            message = (
                f"exceeded elapsed time limit {limit:.2f} ({bound / 1e9:.2f}G/{flops / 1e9:.2f}G)"
            )
            verdict = Verdict(ClientState.ABORTED, TIME_LIMIT, message)
            project = project.with_result(replace(held_result, verdict=verdict))
            commands += [
                Kill(project.url, held_result.name),
                Print(f"{held_result.name} {message}"),
            ]
    return state.with_project(project), commands


def _upload(state: State, project: Project, tick: Tick, rules: Rules) -> Step:
    """Start uploads, at most `downloads_per_project` at a time for each project.

    Outputs of running results are included if their programs requested the upload.
    """
    commands: list[Command] = []
    for held_result in project.in_phase(Phase.UPLOADING, Phase.RUNNING, Phase.READY):
        for name in held_result.outputs:
            file, work = project.files[name], f"upload {project.url} {name}"
            waits = file.presence != Presence.PRESENT or file.retry_at > tick.now
            if waits or work in state.busy:
                continue
            if _count(state, f"upload {project.url} ") >= rules.downloads_per_project:
                return state, commands
            state = state.starting(work)
            commands.append(Upload(project.url, name, resume=file.failures > 0))
    return state, commands


def _contact(state: State, project: Project, tick: Tick, rules: Rules) -> Step:
    """Contact the scheduler if there is a reason and the project allows it now."""
    now = tick.now
    work = f"ask {project.url}"
    if {work, f"claim {project.url}"} & state.busy:
        return state, []
    seconds, instances = work_wanted(state, project, rules, now)
    if not _has_reason(state, project, rules, now, seconds=seconds):
        return state, []
    if not project.update_wanted and now < max(project.next_contact_at, project.rpc_retry_at):
        return state, []
    stale = project.rpc_failures > 0 and project.rpc_failures % MASTER_AFTER_FAILURES == 0
    if not project.scheduler_urls or (stale and project.master_failures == 0):
        return _read_master(state, project, now)
    first = project.next_scheduler % len(project.scheduler_urls)
    urls = project.scheduler_urls[first:] + project.scheduler_urls[:first]
    # The number is incremented before the request is sent. A lost request leaves a gap, which
    # servers accept.
    seqno = project.rpc_seqno if project.hostid else 0
    contacted = replace(
        project,
        rpc_seqno=project.rpc_seqno + 1 if project.hostid else 0,
        asked_seconds=seconds,
        update_wanted=False,
        contact_by=0.0,
        trickles_up=tuple(replace(trickle, is_sent=True) for trickle in project.trickles_up),
    )
    state = state.with_project(contacted).starting(work)
    delay = busy_seconds(state, rules, now) if seconds > 0 else 0.0
    state, copies = _replicate(state, project, seqno)
    return state, [Ask(project.url, urls, seqno, seconds, instances, delay), *copies]


def _replicate(state: State, project: Project, seqno: int) -> Step:
    """Send copies of new trickles to the addresses in `trickle_up_urls`.

    An address is skipped while an earlier copy is being sent to it.
    """
    new = tuple(trickle for trickle in project.trickles_up if not trickle.is_sent)
    commands: list[Command] = []
    for url in project.trickle_up_urls if new else ():
        work = f"replicate {project.url} {url}"
        if work not in state.busy:
            state = state.starting(work)
            commands.append(Replicate(project.url, url, seqno, new))
    return state, commands


def _read_master(state: State, project: Project, now: float) -> Step:
    if now < project.master_retry_at and not project.update_wanted:
        return state, []
    return state.starting(f"ask {project.url}"), [ReadMasterPage(project.url)]


def _has_reason(
    state: State, project: Project, rules: Rules, now: float, *, seconds: float
) -> bool:
    if project.update_wanted or project.hostid == 0:
        return not rules.once or project.url not in state.contacted or project.update_wanted
    # Wait for the end of a recent upload, so that one contact reports its result and requests
    # work. With very short results, some upload is always recent, so a result that has waited
    # for `report_wait` ends the wait.
    recent_uploads = (
        now - held_result.ready_at < rules.report_wait
        for held_result in project.in_phase(Phase.UPLOADING)
    )
    waiting = project.in_phase(Phase.REPORTABLE)
    is_overdue = any(now - held_result.ready_at >= rules.report_wait for held_result in waiting)
    if not is_overdue and any(recent_uploads):
        return False
    if seconds > 0 or 0 < project.contact_by <= now or _trickles_due(project):
        return True
    return report_due(project, rules, now)


def _trickles_due(project: Project) -> bool:
    """Return whether a trickle is new, or must be sent again after a failed request."""
    waiting = project.trickles_up
    return bool(waiting) and (project.rpc_failures > 0 or not all(t.is_sent for t in waiting))


def report_due(project: Project, rules: Rules, now: float) -> bool:
    """Return whether finished results must be reported now (PROTOCOL 2.8).

    With `report_immediately`, they are reported earlier than the protocol requires.
    """
    ready = project.in_phase(Phase.REPORTABLE)
    if not ready:
        return False
    oldest = min(held_result.ready_at for held_result in ready)
    if rules.report_immediately:
        unfinished = project.in_phase(*_UNFINISHED, Phase.UPLOADING)
        return not unfinished or now - oldest >= rules.report_wait
    return (
        len(ready) >= rules.report_batch_size
        or now - oldest >= rules.slow_report_wait
        or any(held_result.offer.report_immediately for held_result in ready)
        or any(held_result.offer.report_deadline < now + DAY for held_result in ready)
    )


def work_wanted(state: State, project: Project, rules: Rules, now: float) -> tuple[float, float]:
    """Return the seconds of work and the number of idle processors to request.

    Both are 0 if no work must be requested.
    """
    if rules.claims:
        # The reply to a request for any work contains the claimed results.
        return (1.0, 0.0) if project.claimed and now >= project.work_retry_at else (0.0, 0.0)
    if not _may_ask(state, project, rules, now):
        return 0.0, 0.0
    queued, idle = _queue(state, rules, now)
    target = rules.slots * rules.buffer_seconds
    if idle == 0 and queued > target / 2:
        return 0.0, 0.0
    return max(target - queued, 1.0), idle


def _may_ask(state: State, project: Project, rules: Rules, now: float) -> bool:
    return not (
        project.is_suspended
        or project.ended
        or project.has_no_cpu_apps
        or now < project.work_retry_at
        or (rules.once and project.url in state.contacted)
        or any(file.is_stalled(now) for file in project.files.values())
    )


def _queue(state: State, rules: Rules, now: float) -> tuple[float, float]:
    """Return the processor seconds of unfinished results, and the number of idle processors."""
    queued, processors = 0.0, 0.0
    for other in state.projects.values():
        for held_result in other.in_phase(*_UNFINISHED):
            used = other.processors_of(held_result)
            # A task list uses the processors of one result.
            if not waits_for_list(other, held_result):
                processors += used
            queued += _remaining(other, held_result, now) * used
    return queued, max(0.0, rules.slots - processors)


def _claim(state: State, project: Project, tick: Tick, rules: Rules) -> Step:
    """Claim a result from the pool while a processor is idle."""
    work = f"claim {project.url}"
    if (
        not rules.claims
        or not project.hostid
        or project.claimed
        or state.paused
        # The server answers one request of a host at a time.
        or {work, f"ask {project.url}"} & state.busy
        or not _may_ask(state, project, rules, tick.now)
    ):
        return state, []
    _queued, idle = _queue(state, rules, tick.now)
    if idle <= 0:
        return state, []
    return state.starting(work), [ClaimWork(project.url, idle, rules.memory_bytes)]


def busy_seconds(state: State, rules: Rules, now: float) -> float:
    """Return the estimated seconds until the unfinished results leave a slot free.

    The value is sent as `estimated_delay`. The project uses this value to predict whether a new
    result can meet its deadline.
    """
    busy = [0.0] * rules.slots
    for project in state.projects.values():
        for held_result in project.in_phase(*_UNFINISHED):
            processors = min(project.processors_of(held_result), len(busy))
            slots = max(1, math.ceil(processors))
            for slot in sorted(range(len(busy)), key=busy.__getitem__)[:slots]:
                busy[slot] += _remaining(project, held_result, now) * processors / slots
    return min(busy, default=0.0)


def _remaining(project: Project, held_result: HeldResult, now: float) -> float:
    estimate = project.workunit_of(held_result).rsc_fpops_est
    flops = project.version_of(held_result).flops or 1e9
    return max(estimate / flops - held_result.elapsed_at(now), 1.0)


_PLANNERS: tuple[Planner, ...] = (
    _settle,
    _fetch,
    _suspend,
    _run,
    _limit,
    _upload,
    _claim,
    _contact,
)
