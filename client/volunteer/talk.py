"""Handles messages between running programs and their project.

A trickle up is a message from a program, and a trickle down is a message from the project. The
state contains each trickle up until the project acknowledges it, and each trickle down until the
program runs. An output that a program uploads before its end is sent like other outputs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from volunteer import events
from volunteer.dispatch import Step, apply
from volunteer.events import Command, Deliver, NotifyUpload, Print
from volunteer.records import (
    HeldResult,
    Phase,
    Presence,
    Progress,
    Project,
    State,
    TrickleDown,
    TrickleUp,
)
from volunteer.verdicts import can_be_sent, ready_to_send
from volunteer.wire.web import is_web_url
from volunteer.wire.xml import leaves

if TYPE_CHECKING:
    from collections.abc import Mapping

    from volunteer.config import Rules
    from volunteer.wire.messages import Reply

# BOINC's error number for a failed upload.
UPLOAD_GIVEN_UP = -128
# Trickles are stored in the state file, which is written after each change.
_MAX_TRICKLES = 500
# Each address gets a request for each trickle.
_MAX_TRICKLE_URLS = 8
_MAX_URL_CHARACTERS = 255
_MAX_TRICKLE_CHARACTERS = 2 << 20
# This limit applies to a result that does not run. Unread messages must not fill the state.
_MAX_TRICKLES_DOWN = 50


@apply.register(events.ProgressReported)
def _(event: events.ProgressReported, state: State, _rules: Rules) -> Step:
    key = event.project, event.result
    held_result = state.projects[event.project].results[event.result]
    if held_result.phase != Phase.RUNNING:
        return state, []
    former = state.progress.get(key, Progress())
    # Programs report zero until they have set a fraction.
    fraction = event.fraction_done or former.fraction_done
    cpu_time = former.cpu_time if event.cpu_time is None else event.cpu_time
    gpu_usage = former.gpu_usage if event.gpu_usage is None else event.gpu_usage
    progress = Progress(fraction, cpu_time, gpu_usage)
    return replace(state, progress={**state.progress, key: progress}), []


def usage_values(
    progress: Progress, *, held_result: HeldResult, now: float, cpu_time: float, memory_bytes: int
) -> dict[str, float]:
    """Return the progress and usage of a running program, by the names that projects use.

    `fraction_done` and `gpu_usage` are missing if the program did not report them, and
    `memory_bytes` until it is first measured, shortly after the start. `cpu_time` is
    the CPU time since the last start of the program, for programs that do not report their own.
    """
    is_reported = progress.cpu_time is not None
    values = {
        "fraction_done": progress.fraction_done,
        "cpu_time": progress.cpu_time if is_reported else held_result.cpu_time + cpu_time,
        "elapsed_time": held_result.elapsed_at(now),
        "memory_bytes": memory_bytes or None,
        "gpu_usage": progress.gpu_usage,
    }
    return {name: value for name, value in values.items() if value is not None}


def usage_message(values: Mapping[str, float]) -> str:
    """Return the message to a project with `usage_values`.

    Its variety is `progress` if the program reported its fraction, else `usage`.
    """
    return leaves(variety="progress" if "fraction_done" in values else "usage", **values)


@apply.register(events.TrickleWritten)
def _(event: events.TrickleWritten, state: State, _rules: Rules) -> Step:
    project = state.projects[event.project]
    queued = project.trickles_up
    fault = event.fault
    if not fault and (
        len(queued) >= _MAX_TRICKLES
        or sum(len(trickle.text) for trickle in queued) + len(event.text) > _MAX_TRICKLE_CHARACTERS
    ):
        fault = f"{len(queued)} messages are already queued"
    if fault:
        return state, [Print(f"{event.result}: a message to the project was dropped: {fault}")]
    # Projects keep one message per result and second.
    latest = max((t.time for t in queued if t.result_name == event.result), default=0)
    trickle = TrickleUp(event.result, max(int(event.now), latest + 1), event.text)
    project = replace(project, trickles_up=(*queued, trickle))
    return state.with_project(project), []


@apply.register(events.TricklesReplicated)
def _(event: events.TricklesReplicated, state: State, _rules: Rules) -> Step:
    state = state.done_with(f"replicate {event.project} {event.url}")
    if not event.reason:
        return state, []
    # As in BOINC's client, there is no retry, because the scheduler request sends every trickle.
    return state, [Print(f"{event.project}: a copy of a trickle was lost: {event.reason}")]


@apply.register(events.UploadRequested)
def _(event: events.UploadRequested, state: State, _rules: Rules) -> Step:
    project = state.projects[event.project]
    held_result = project.results[event.result]
    commands: list[Command] = []
    for output in event.outputs:
        file = project.files[output.name]
        if not can_be_sent(output, file):
            max_nbytes = file.info.max_nbytes
            reason = output.fault or (
                f"it has {output.nbytes} bytes, and {max_nbytes} are allowed"
                if output.nbytes >= 0 and max_nbytes
                else "there is no such file"
            )
            commands.append(
                Print(f"{event.result}: {output.name} cannot be uploaded now: {reason}")
            )
        elif output.name in held_result.outputs and file.presence == Presence.UPLOADED:
            commands += _notices(project, output.name, 0)
        elif output.name not in held_result.outputs:
            held_result = replace(held_result, outputs=(*held_result.outputs, output.name))
            project = project.with_file(ready_to_send(output, file)).with_result(held_result)
    return state.with_project(project), commands


def upload_notices(project: Project, name: str) -> list[Command]:
    """Return commands that notify running programs that an output was uploaded or refused.

    Returns no commands while the upload is not finished.
    """
    presence = project.files[name].presence
    if presence == Presence.UPLOADED:
        return _notices(project, name, 0)
    return _notices(project, name, UPLOAD_GIVEN_UP) if presence == Presence.FAILED else []


def _notices(project: Project, name: str, status: int) -> list[Command]:
    return [
        NotifyUpload(project.url, held_result.name, held_result.slot, ref.slot_name, status)
        for held_result in project.in_phase(Phase.RUNNING)
        for ref in project.output_refs(held_result.offer)
        if ref.file_name == name
    ]


def take_trickle_urls(project: Project, reply: Reply) -> tuple[Project, list[Command]]:
    """Store the addresses in a reply to which copies of trickles are sent.

    After a reply without addresses, no more copies are sent. Copies contain the account key, so the
    addresses must use https if the project uses https.
    """
    needs_https = any(url.startswith("https:") for url in (project.url, *project.scheduler_urls))
    accepted: list[str] = []
    refused: list[Command] = []
    for url in dict.fromkeys(reply.trickle_up_urls):
        fault = ""
        if len(url) > _MAX_URL_CHARACTERS or not is_web_url(url):
            fault = "it is not an http or https address"
        elif needs_https and not url.startswith("https:"):
            fault = "it is not encrypted, but the address of the project is"
        elif len(accepted) == _MAX_TRICKLE_URLS:
            fault = f"{_MAX_TRICKLE_URLS} addresses are already in use"
        if not fault:
            accepted.append(url)
        elif url not in project.trickle_up_refused:
            refused.append(Print(f"{project.url}: no trickles are copied to {url:.80}: {fault}"))
    others = tuple(url for url in dict.fromkeys(reply.trickle_up_urls) if url not in accepted)
    project = replace(
        project, trickle_up_urls=tuple(accepted), trickle_up_refused=others[:_MAX_TRICKLE_URLS]
    )
    return project, refused


def take_trickles(project: Project, reply: Reply) -> tuple[Project, list[Command]]:
    """Delete acknowledged trickles up, and store or deliver the trickles down of a reply."""
    if reply.message_ack:
        waiting = tuple(trickle for trickle in project.trickles_up if not trickle.is_sent)
        project = replace(project, trickles_up=waiting)
    commands: list[Command] = []
    for message in reply.trickles:
        held_result = project.results.get(message.result_name)
        trickle = TrickleDown(message.time, message.text)
        if held_result is None or held_result.verdict is not None:
            text = f"a message of the project for {message.result_name} arrived too late"
            commands.append(Print(text))
        elif held_result.phase == Phase.RUNNING:
            commands.append(Deliver(project.url, held_result.name, held_result.slot, trickle))
        else:
            project = project.with_result(_with_trickle(held_result, trickle))
    return project, commands


def _with_trickle(held_result: HeldResult, trickle: TrickleDown) -> HeldResult:
    others = tuple(other for other in held_result.trickles_down if other.time != trickle.time)
    return replace(held_result, trickles_down=(*others, trickle)[-_MAX_TRICKLES_DOWN:])
