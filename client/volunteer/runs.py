"""Handles the events of the start and the end of a program."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from volunteer import events
from volunteer.dispatch import Step, apply
from volunteer.events import Command, Kill, Print
from volunteer.plan import after_error
from volunteer.records import ClientState, HeldResult, Phase, Presence, Project, State, Verdict
from volunteer.verdicts import (
    COULD_NOT_START,
    DISK_LIMIT,
    Restart,
    can_be_sent,
    judge_exit,
    ready_to_send,
    with_terminated_status,
)

if TYPE_CHECKING:
    from volunteer.config import Rules


@apply.register(events.ProcessStarted)
def _(event: events.ProcessStarted, state: State, _rules: Rules) -> Step:
    state, project, held_result = _process(event, state)
    running = replace(
        held_result,
        phase=Phase.RUNNING,
        pid=event.pid,
        pid_started=event.pid_started,
        running_since=event.now,
        starts=held_result.starts + 1,
        is_suspended=False,
        # The trickles were written into the slot before the start.
        trickles_down=(),
    )
    again = " again" if held_result.starts else ""
    state = state.with_project(project.with_result(running))
    commands: list[Command] = [Print(f"{event.result} running{again}")]
    if held_result.verdict is not None:
        # The project aborted the result while its program was being started.
        grace = project.workunit_of(held_result).max_termination_time
        commands.append(Kill(event.project, event.result, grace))
    return state, commands


@apply.register(events.ProcessNotStarted)
def _(event: events.ProcessNotStarted, state: State, _rules: Rules) -> Step:
    state, project, held_result = _process(event, state)
    message = f"couldn't start app: {event.reason}"
    verdict = Verdict(ClientState.COMPUTE_ERROR, COULD_NOT_START, message)
    state = state.with_project(project.with_result(held_result.as_reportable(verdict, event.now)))
    return state, [Print(f"{event.result} failed: {message}")]


@apply.register(events.SlotMeasured)
def _(event: events.SlotMeasured, state: State, _rules: Rules) -> Step:
    project = state.projects[event.project]
    held_result = project.results[event.result]
    held_result = replace(held_result, peak_disk=max(held_result.peak_disk, event.nbytes))
    bound = project.workunit_of(held_result).rsc_disk_bound
    commands: list[Command] = []
    if event.nbytes > bound and held_result.phase == Phase.RUNNING and held_result.verdict is None:
        message = f"Disk usage limit exceeded: {event.nbytes} of {bound:.0f} bytes"
        verdict = Verdict(ClientState.ABORTED, DISK_LIMIT, message)
        held_result = replace(held_result, verdict=verdict)
        commands = [Kill(event.project, event.result), Print(f"{event.result}: {message}")]
    return state.with_project(project.with_result(held_result)), commands


@apply.register(events.ProcessInterrupted)
def _(event: events.ProcessInterrupted, state: State, _rules: Rules) -> Step:
    state, project, held_result = _process(event, state)
    state = _without_progress(state, event)
    held_result = _stopped(held_result, event.now)
    phase = Phase.READY if held_result.verdict is None else Phase.REPORTABLE
    held_result = replace(held_result, phase=phase, ready_at=event.now)
    return state.with_project(project.with_result(held_result)), []


@apply.register(events.ProcessExited)
def _(event: events.ProcessExited, state: State, rules: Rules) -> Step:
    state, project, held_result = _process(event, state)
    state = _without_progress(state, event)
    if event.falsified:
        state = replace(state, falsified=event.falsified)
    verdict = judge_exit(event, held_result, project, rules.max_restarts)
    if isinstance(verdict, Verdict):
        verdict = with_terminated_status(verdict, event)
    held_result = replace(
        _stopped(held_result, event.now),
        cpu_time=held_result.cpu_time + event.cpu_time,
        peak_memory=max(held_result.peak_memory, event.peak_memory),
        stderr=event.stderr,
    )
    if isinstance(verdict, Restart):
        held_result = replace(
            held_result,
            phase=Phase.READY,
            restarts=held_result.restarts + 1,
            postponed_until=event.now + verdict.delay_seconds,
        )
        text = f"{event.result} exited early; it will be restarted"
        return state.with_project(project.with_result(held_result)), [Print(text)]
    if verdict.client_state == ClientState.UPLOADED:
        project = replace(project, errors=0)
    elif verdict.client_state == ClientState.COMPUTE_ERROR:
        project = after_error(project, event, rules)
    return _finish(state, project, replace(held_result, verdict=verdict), event)


def _finish(
    state: State, project: Project, held_result: HeldResult, event: events.ProcessExited
) -> Step:
    """Schedule the uploads of an ended result. An aborted result has no uploads."""
    verdict = held_result.verdict or Verdict(ClientState.UPLOADED, 0)
    outputs: list[str] = []
    if verdict.client_state != ClientState.ABORTED:
        for output in event.outputs:
            file = project.files[output.name]
            if not can_be_sent(output, file):
                continue
            outputs.append(output.name)
            if output.name in held_result.outputs and file.presence != Presence.ABSENT:
                # The program requested this upload while it ran, so the file is not sent again.
                continue
            project = project.with_file(ready_to_send(output, file))
    held_result = replace(
        held_result, phase=Phase.UPLOADING, outputs=tuple(outputs), ready_at=event.now
    )
    text = f"{event.result} finished ({held_result.elapsed:.1f} s)"
    if verdict.client_state != ClientState.UPLOADED:
        held_result = held_result if outputs else replace(held_result, phase=Phase.REPORTABLE)
        reason = " ".join(verdict.message.split()) or f"exit status {verdict.exit_status}"
        text = f"{event.result} failed: {reason}"
    return state.with_project(project.with_result(held_result)), [Print(text)]


def _process(event: events.ResultEvent, state: State) -> tuple[State, Project, HeldResult]:
    project = state.projects[event.project]
    state = state.done_with(f"run {event.project} {event.result}")
    return state, project, project.results[event.result]


def _stopped(held_result: HeldResult, now: float) -> HeldResult:
    return replace(
        held_result,
        elapsed=held_result.elapsed_at(now),
        running_since=0.0,
        pid=0,
        pid_started=0,
        is_suspended=False,
    )


def _without_progress(state: State, event: events.ResultEvent) -> State:
    key = event.project, event.result
    return replace(state, progress={k: v for k, v in state.progress.items() if k != key})
