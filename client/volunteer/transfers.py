"""What the end of a download or upload changes [pure]."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from volunteer import events
from volunteer.dispatch import Step, apply
from volunteer.events import Discard, Event, Say
from volunteer.records import HeldFile, Presence, Project, State
from volunteer.talk import upload_notices

if TYPE_CHECKING:
    from volunteer.config import Rules


@apply.register(events.DownloadFinished)
def _(event: events.DownloadFinished, state: State, rules: Rules) -> Step:
    del rules
    state, project, held = _transfer(event, state, "fetch")
    if held is None:
        return state, [Discard(event.project, event.name)]
    here = replace(
        held,
        presence=Presence.PRESENT,
        failures=0,
        retry_at=0.0,
        signed_sha256=event.signed_sha256,
    )
    return state.with_project(project.with_file(here)), []


@apply.register(events.DownloadFailed)
def _(event: events.DownloadFailed, state: State, rules: Rules) -> Step:
    state, project, held = _transfer(event, state, "fetch")
    if held is None:
        return state, []
    failed = _after_failure(held, event, rules, permanent=event.permanent)
    if failed.presence == Presence.FAILED:
        failed = replace(failed, error_code=event.code, error_message=event.reason)
        text = f"{event.name} cannot be had: {event.reason}"
    else:
        text = f"{event.name} did not come: {event.reason}; again {_when(failed, event)}"
    return state.with_project(project.with_file(failed)), [Say(text)]


@apply.register(events.FileLost)
def _(event: events.FileLost, state: State, rules: Rules) -> Step:
    del rules
    project = state.projects[event.project]
    held = project.files.get(event.name)
    if held is None:
        return state, []
    return state.with_project(project.with_file(replace(held, presence=Presence.ABSENT))), [
        Say(f"{event.name} is not as it was; fetching it again")
    ]


@apply.register(events.UploadFinished)
def _(event: events.UploadFinished, state: State, rules: Rules) -> Step:
    del rules
    state, project, held = _transfer(event, state, "upload")
    if held is None:
        return state, []
    project = project.with_file(replace(held, presence=Presence.UPLOADED))
    if not project.errors:
        project = replace(project, work_retry_at=0.0, work_failures=0)
    return state.with_project(project), upload_notices(project, event.name)


@apply.register(events.UploadFailed)
def _(event: events.UploadFailed, state: State, rules: Rules) -> Step:
    state, project, held = _transfer(event, state, "upload")
    if held is None:
        return state, []
    failed = _after_failure(held, event, rules, permanent=event.permanent)
    text = f"{event.name} did not go up: {event.reason}"
    if failed.presence == Presence.FAILED:
        failed = replace(
            failed, error_code="-128 (permanent upload error)", error_message=event.reason
        )
    else:
        text += f"; again {_when(failed, event)}"
    project = project.with_file(failed)
    return state.with_project(project), [Say(text), *upload_notices(project, event.name)]


def _transfer(
    event: events.FileEvent, state: State, kind: str
) -> tuple[State, Project, HeldFile | None]:
    state = state.done_with(f"{kind} {event.project} {event.name}")
    project = state.projects[event.project]
    return state, project, project.files.get(event.name)


def _after_failure(
    held: HeldFile, event: events.FileEvent, rules: Rules, *, permanent: bool
) -> HeldFile:
    """Wait longer after each failure; give up when it is for good or has lasted 90 days."""
    first = held.first_failed_at or event.now
    if permanent or event.now - first > rules.give_up_transfers_after:
        return replace(held, presence=Presence.FAILED)
    failures = held.failures + 1
    wait = rules.transfer_backoff(failures, event.chance)
    return replace(held, failures=failures, first_failed_at=first, retry_at=event.now + wait)


def _when(held: HeldFile, event: Event) -> str:
    return f"in {held.retry_at - event.now:.0f} s"
