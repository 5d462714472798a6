"""Event handlers for the end of downloads and uploads [pure]."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from volunteer import events
from volunteer.dispatch import Step, apply
from volunteer.events import Discard, Event, Print
from volunteer.records import HeldFile, Presence, Project, State
from volunteer.talk import upload_notices

if TYPE_CHECKING:
    from volunteer.config import Rules


@apply.register(events.DownloadFinished)
def _(event: events.DownloadFinished, state: State, rules: Rules) -> Step:
    del rules
    state, project, held_file = _transfer(event, state, "fetch")
    if held_file is None:
        return state, [Discard(event.project, event.name)]
    here = replace(
        held_file,
        presence=Presence.PRESENT,
        failures=0,
        retry_at=0.0,
        signed_sha256=event.signed_sha256,
    )
    return state.with_project(project.with_file(here)), []


@apply.register(events.DownloadFailed)
def _(event: events.DownloadFailed, state: State, rules: Rules) -> Step:
    state, project, held_file = _transfer(event, state, "fetch")
    if held_file is None:
        return state, []
    failed = _after_failure(held_file, event, rules, permanent=event.permanent)
    if failed.presence == Presence.FAILED:
        failed = replace(failed, error_code=event.code, error_message=event.reason)
        text = f"{event.name}: download failed permanently: {event.reason}"
    else:
        text = f"{event.name}: download failed: {event.reason}; retry {_when(failed, event)}"
    return state.with_project(project.with_file(failed)), [Print(text)]


@apply.register(events.FileLost)
def _(event: events.FileLost, state: State, rules: Rules) -> Step:
    del rules
    project = state.projects[event.project]
    held_file = project.files.get(event.name)
    if held_file is None:
        return state, []
    return state.with_project(project.with_file(replace(held_file, presence=Presence.ABSENT))), [
        Print(f"{event.name} is missing or was changed; downloading it again")
    ]


@apply.register(events.UploadFinished)
def _(event: events.UploadFinished, state: State, rules: Rules) -> Step:
    del rules
    state, project, held_file = _transfer(event, state, "upload")
    if held_file is None:
        return state, []
    project = project.with_file(replace(held_file, presence=Presence.UPLOADED))
    if not project.errors:
        project = replace(project, work_retry_at=0.0, work_failures=0)
    return state.with_project(project), upload_notices(project, event.name)


@apply.register(events.UploadFailed)
def _(event: events.UploadFailed, state: State, rules: Rules) -> Step:
    state, project, held_file = _transfer(event, state, "upload")
    if held_file is None:
        return state, []
    failed = _after_failure(held_file, event, rules, permanent=event.permanent)
    text = f"{event.name}: upload failed: {event.reason}"
    if failed.presence == Presence.FAILED:
        failed = replace(
            failed, error_code="-128 (permanent upload error)", error_message=event.reason
        )
    else:
        text += f"; retry {_when(failed, event)}"
    project = project.with_file(failed)
    return state.with_project(project), [Print(text), *upload_notices(project, event.name)]


def _transfer(
    event: events.FileEvent, state: State, kind: str
) -> tuple[State, Project, HeldFile | None]:
    state = state.done_with(f"{kind} {event.project} {event.name}")
    project = state.projects[event.project]
    return state, project, project.files.get(event.name)


def _after_failure(
    held_file: HeldFile, event: events.FileEvent, rules: Rules, *, permanent: bool
) -> HeldFile:
    """Return the file with its next retry, or failed if permanent or failing for 90 days."""
    first = held_file.first_failed_at or event.now
    if permanent or event.now - first > rules.give_up_transfers_after:
        return replace(held_file, presence=Presence.FAILED)
    failures = held_file.failures + 1
    wait = rules.transfer_backoff(failures, event.chance)
    return replace(held_file, failures=failures, first_failed_at=first, retry_at=event.now + wait)


def _when(held_file: HeldFile, event: Event) -> str:
    return f"in {held_file.retry_at - event.now:.0f} s"
