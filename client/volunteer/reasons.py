"""Finds the reason why the client requests no work from a project."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from volunteer.records import Phase

if TYPE_CHECKING:
    from volunteer.records import Project, State


@dataclass(frozen=True, slots=True)
class Wait:
    """A reason to request no work from a project.

    `until` is the end of the wait in unix seconds, or 0 if the end is unknown.
    """

    reason: str
    until: float = 0.0

    def sentence(self, now: float) -> str:
        """Return the reason with the remaining time.

        >>> Wait("the project had no work", 130.0).sentence(100.0), Wait("suspended").sentence(0.0)
        ('next work request in 30 s: the project had no work', 'suspended')
        """
        if self.until <= now:
            return self.reason
        return f"next work request in {self.until - now:.0f} s: {self.reason}"


def wait_of(state: State, project: Project, now: float) -> Wait | None:
    """Return the reason why the client requests no work from a project now, or None.

    If the client waits for several times, the reason with the latest time is returned.
    """
    if state.paused:
        return Wait(f"programs pause: {state.paused}")
    if project.is_suspended:
        return Wait(f"suspended; `volunteer resume {project.url}` resumes it")
    if project.ended:
        return Wait("the project has ended")
    if project.has_no_cpu_apps:
        return Wait("the project has no programs for processors")
    if f"ask {project.url}" in state.busy:
        return Wait("contacting the project")
    waits = _stalled(project, now)
    if project.rpc_failures:
        waits.append(Wait("the project did not answer", project.rpc_retry_at))
    if project.master_failures:
        waits.append(Wait("the project has no scheduler address", project.master_retry_at))
    if project.errors:
        waits.append(Wait("results failed on this computer", project.work_retry_at))
    elif project.work_failures:
        waits.append(Wait("the project had no work", project.work_retry_at))
    waits.append(Wait("the project requires a delay between requests", project.next_contact_at))
    longest = max(waits, key=lambda wait: wait.until)
    return longest if longest.until > now else None


def _stalled(project: Project, now: float) -> list[Wait]:
    """Return the waits for failed downloads, which block work requests until their retry."""
    return [
        Wait(f"the download of {file.info.name} failed", file.retry_at)
        for file in project.files.values()
        if file.is_stalled(now)
    ]


def activity(project: Project, now: float) -> str:
    """Return a description of the downloads, the restart or the uploads of a project.

    Returns an empty string if a result runs, or if the project has no such activity.
    """
    if project.in_phase(Phase.RUNNING):
        return ""
    if fetching := len(project.in_phase(Phase.FETCHING)):
        return f"downloading the files of {fetching} result{'s' if fetching > 1 else ''}"
    postponed = [held_result.postponed_until for held_result in project.in_phase(Phase.READY)]
    if postponed and min(postponed) > now:
        return f"a program resumes in {min(postponed) - now:.0f} s"
    if uploading := len(project.in_phase(Phase.UPLOADING)):
        return f"uploading the outputs of {uploading} result{'s' if uploading > 1 else ''}"
    return ""
