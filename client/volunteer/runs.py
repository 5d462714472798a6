"""What the start and the end of a program change [pure]."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from volunteer import events
from volunteer.dispatch import Step, apply
from volunteer.events import Command, Kill, Say
from volunteer.plan import after_error
from volunteer.records import (
    ClientState,
    HeldResult,
    Phase,
    Presence,
    Project,
    State,
    Verdict,
)
from volunteer.verdicts import COULD_NOT_START, DISK_LIMIT, Again, judge_exit

if TYPE_CHECKING:
    from volunteer.config import Rules


@apply.register(events.ProcessStarted)
def _(event: events.ProcessStarted, state: State, rules: Rules) -> Step:
    del rules
    state, project, held = _process(event, state)
    running = replace(
        held,
        phase=Phase.RUNNING,
        pid=event.pid,
        pid_started=event.pid_started,
        running_since=event.now,
        starts=held.starts + 1,
        is_suspended=False,
        # They were put into the slot before the start.
        trickles_down=(),
    )
    again = " again" if held.starts else ""
    return state.with_project(project.with_result(running)), [Say(f"{event.result} running{again}")]


@apply.register(events.ProcessNotStarted)
def _(event: events.ProcessNotStarted, state: State, rules: Rules) -> Step:
    del rules
    state, project, held = _process(event, state)
    message = f"couldn't start app: {event.reason}"
    ended = replace(
        held,
        phase=Phase.REPORTABLE,
        verdict=Verdict(ClientState.COMPUTE_ERROR, COULD_NOT_START, message),
        ready_at=event.now,
    )
    return state.with_project(project.with_result(ended)), [
        Say(f"{event.result} failed: {message}")
    ]


@apply.register(events.SlotMeasured)
def _(event: events.SlotMeasured, state: State, rules: Rules) -> Step:
    del rules
    project = state.projects[event.project]
    held = project.results[event.result]
    held = replace(held, peak_disk=max(held.peak_disk, event.nbytes))
    bound = project.workunits[held.offer.wu_name].rsc_disk_bound
    commands: list[Command] = []
    if event.nbytes > bound and held.phase == Phase.RUNNING and held.verdict is None:
        message = f"Disk usage limit exceeded: {event.nbytes} of {bound:.0f} bytes"
        held = replace(held, verdict=Verdict(ClientState.ABORTED, DISK_LIMIT, message))
        commands = [Kill(event.project, event.result), Say(f"{event.result}: {message}")]
    return state.with_project(project.with_result(held)), commands


@apply.register(events.ProcessInterrupted)
def _(event: events.ProcessInterrupted, state: State, rules: Rules) -> Step:
    del rules
    state, project, held = _process(event, state)
    state = _without_progress(state, event)
    held = _stopped(held, event.now)
    phase = Phase.READY if held.verdict is None else Phase.REPORTABLE
    held = replace(held, phase=phase, ready_at=event.now)
    return state.with_project(project.with_result(held)), []


@apply.register(events.ProcessExited)
def _(event: events.ProcessExited, state: State, rules: Rules) -> Step:
    state, project, held = _process(event, state)
    state = _without_progress(state, event)
    if event.falsified:
        state = replace(state, falsified=event.falsified)
    verdict = judge_exit(event, held, project, rules.restarts_at_most)
    held = replace(
        _stopped(held, event.now),
        cpu_time=held.cpu_time + event.cpu_time,
        peak_memory=max(held.peak_memory, event.peak_memory),
        stderr=event.stderr,
    )
    if isinstance(verdict, Again):
        held = replace(
            held,
            phase=Phase.READY,
            restarts=held.restarts + 1,
            postponed_until=event.now + verdict.after,
        )
        text = f"{event.result} stopped early; it will run again"
        return state.with_project(project.with_result(held)), [Say(text)]
    if verdict.client_state == ClientState.UPLOADED:
        project = replace(project, errors=0)
    elif verdict.client_state == ClientState.COMPUTE_ERROR:
        project = after_error(project, event, rules)
    return _finish(state, project, replace(held, verdict=verdict), event)


def _finish(state: State, project: Project, held: HeldResult, event: events.ProcessExited) -> Step:
    """Send the outputs of a finished result on their way; an aborted one has none."""
    verdict = held.verdict or Verdict(ClientState.UPLOADED, 0)
    outputs: list[str] = []
    if verdict.client_state != ClientState.ABORTED:
        for output in event.outputs:
            file = project.files[output.name]
            most = file.info.max_nbytes
            if output.nbytes < 0 or (most and output.nbytes > most) or not file.info.upload_urls:
                continue
            outputs.append(output.name)
            if output.name in held.outputs and file.presence != Presence.ABSENT:
                # Its upload was requested while the program ran, and it is not sent again.
                continue
            project = project.with_file(
                replace(
                    file,
                    presence=Presence.PRESENT,
                    nbytes=output.nbytes,
                    md5=output.md5,
                    failures=0,
                    retry_at=0.0,
                )
            )
    held = replace(held, phase=Phase.UPLOADING, outputs=tuple(outputs), ready_at=event.now)
    text = f"{event.result} finished ({held.elapsed:.1f} s)"
    if verdict.client_state != ClientState.UPLOADED:
        held = held if outputs else replace(held, phase=Phase.REPORTABLE)
        reason = " ".join(verdict.message.split()) or f"exit status {verdict.exit_status}"
        text = f"{event.result} failed: {reason}"
    return state.with_project(project.with_result(held)), [Say(text)]


def _process(event: events.ResultEvent, state: State) -> tuple[State, Project, HeldResult]:
    project = state.projects[event.project]
    state = state.done_with(f"run {event.project} {event.result}")
    return state, project, project.results[event.result]


def _stopped(held: HeldResult, now: float) -> HeldResult:
    return replace(
        held,
        elapsed=held.elapsed_at(now),
        running_since=0.0,
        pid=0,
        pid_started=0,
        is_suspended=False,
    )


def _without_progress(state: State, event: events.ResultEvent) -> State:
    key = event.project, event.result
    return replace(state, progress={k: v for k, v in state.progress.items() if k != key})
