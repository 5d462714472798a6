"""Describes the state of the client as lines and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from volunteer import mailbox
from volunteer.display import printable
from volunteer.reasons import wait_of

if TYPE_CHECKING:
    from pathlib import Path

    from volunteer.records import HeldResult, Project, State


def is_running(folder: Path) -> bool:
    """Return whether a client runs in the folder."""
    try:
        with mailbox.locked(folder):
            return False
    except mailbox.FolderInUseError:
        return True


def as_json(state: State, folder: Path, now: float) -> dict[str, Any]:
    """Return the state as JSON types, without account keys. Times are in unix seconds."""
    return {
        "folder": str(folder),
        "running": is_running(folder),
        "host_cpid": state.host_cpid,
        "preferences_from": state.received_preferences.source or None,
        "preferences_changed_at": state.received_preferences.mod_time or None,
        "projects": [_project(state, project, now) for project in state.projects.values()],
    }


def _project(state: State, project: Project, now: float) -> dict[str, Any]:
    wait = wait_of(state, project, now)
    return {
        "url": project.url,
        "name": project.account.project_name,
        "user": project.account.user_name,
        "hostid": project.hostid,
        "user_total_credit": project.account.user_total_credit,
        "host_total_credit": project.account.host_total_credit,
        "next_contact_at": max(project.next_contact_at, project.rpc_retry_at),
        "work_retry_at": project.work_retry_at,
        "failures": project.rpc_failures,
        "waits_for": wait.reason if wait else "",
        "waits_until": wait.until if wait and wait.until else None,
        "last_message": project.last_message,
        "suspended": project.is_suspended,
        "messages_to_send": len(project.trickles_up),
        "results": [_result(held_result) for held_result in project.results.values()],
    }


def _result(held_result: HeldResult) -> dict[str, Any]:
    verdict = held_result.verdict
    return {
        "name": held_result.name,
        "phase": held_result.phase.value,
        "slot": held_result.slot if held_result.slot >= 0 else None,
        "pid": held_result.pid or None,
        "elapsed_seconds": round(held_result.elapsed, 3),
        "running_since": held_result.running_since or None,
        "report_deadline": held_result.offer.report_deadline,
        "state": verdict.client_state if verdict else None,
        "exit_status": verdict.exit_status if verdict else None,
        "message": verdict.message if verdict else "",
    }


def as_lines(state: State, folder: Path, now: float) -> list[str]:
    """Return lines of text that describe the client, its projects and its results."""
    running = "running" if is_running(folder) else "not running"
    if not state.projects:
        return [f"{folder}: {running}, not attached to any project"]
    lines = [f"{folder}: {running}"]
    if source := state.received_preferences.source:
        lines.append(f"computing preferences of {source}")
    for project in state.projects.values():
        name = project.account.project_name or "a project not yet contacted"
        credit = project.account.user_total_credit
        lines.append(f"{project.url} {name}, host {project.hostid or '-'}, credit {credit:.2f}")
        if wait := wait_of(state, project, now):
            lines.append(f"  {wait.sentence(now)}")
        if project.last_message:
            lines.append(f"  last message: {project.last_message}")
        lines += [_line(held_result, now) for held_result in project.results.values()]
    return [line[: len(line) - len(line.lstrip())] + printable(line) for line in lines]


def _line(held_result: HeldResult, now: float) -> str:
    words = [f"  {held_result.name} {held_result.phase.value}"]
    if held_result.starts:
        words.append(f"{held_result.elapsed_at(now):.0f} s")
    if held_result.verdict is not None and held_result.verdict.message:
        words.append(" ".join(held_result.verdict.message.split()))
    return ", ".join(words)
