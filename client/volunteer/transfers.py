"""Handles the events of the end of downloads and uploads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from volunteer import events
from volunteer.dispatch import Step, apply
from volunteer.events import Discard, Print
from volunteer.records import HeldFile, Presence, Project, State
from volunteer.talk import upload_notices

if TYPE_CHECKING:
    from volunteer.config import Rules


@apply.register(events.DownloadFinished)
def _(event: events.DownloadFinished, state: State, _rules: Rules) -> Step:
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
    failed, retry = _after_failure(held_file, event, rules, event.code)
    permanently = "" if retry else " permanently"
    text = f"{event.name}: download failed{permanently}: {event.reason}{retry}"
    return state.with_project(project.with_file(failed)), [Print(text)]


@apply.register(events.FileLost)
def _(event: events.FileLost, state: State, _rules: Rules) -> Step:
    project = state.projects[event.project]
    held_file = project.files.get(event.name)
    if held_file is None:
        return state, []
    project = project.with_file(replace(held_file, presence=Presence.ABSENT))
    text = f"{event.name} is missing or was changed; downloading it again"
    return state.with_project(project), [Print(text)]


@apply.register(events.UploadFinished)
def _(event: events.UploadFinished, state: State, _rules: Rules) -> Step:
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
    failed, retry = _after_failure(held_file, event, rules, "-128 (permanent upload error)")
    project = project.with_file(failed)
    text = f"{event.name}: upload failed: {event.reason}{retry}"
    return state.with_project(project), [Print(text), *upload_notices(project, event.name)]


def _transfer(
    event: events.FileEvent, state: State, kind: str
) -> tuple[State, Project, HeldFile | None]:
    state = state.done_with(f"{kind} {event.project} {event.name}")
    project = state.projects[event.project]
    return state, project, project.files.get(event.name)


def _after_failure(
    held_file: HeldFile, event: events.TransferFailed, rules: Rules, code: str
) -> tuple[HeldFile, str]:
    """Return the file after a failed transfer, and a text with the time until the retry.

    The text is empty if there is no retry, because the failure is permanent or the first failure
    was more than 90 days ago.
    """
    first = held_file.first_failed_at or event.now
    if event.permanent or event.now - first > rules.give_up_transfers_after:
        failed = replace(
            held_file, presence=Presence.FAILED, error_code=code, error_message=event.reason
        )
        return failed, ""
    failures = held_file.failures + 1
    wait = rules.transfer_backoff(failures, event.chance)
    failed = replace(held_file, failures=failures, first_failed_at=first, retry_at=event.now + wait)
    return failed, f"; retry in {wait:.0f} s"
