"""One run of the client from its first turn to the sentence it ends with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from volunteer.records import Phase, Project, State

if TYPE_CHECKING:
    import threading

    from volunteer.agent import Agent

_PATIENCE = 5


class Mode(StrEnum):
    """When a run ends by itself."""

    FOREVER = "forever"
    ONCE = "once"
    UNTIL_IDLE = "until-idle"


class Trouble(StrEnum):
    """Why a run ended without doing its work."""

    UNREACHABLE = "unreachable"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended; `trouble` None if all went well."""

    sentence: str
    trouble: Trouble | None = None


def run(agent: Agent, mode: Mode, stopping: threading.Event) -> Ending:
    """Take turns until the mode says that it is enough, or somebody stops us."""
    agent.begin()
    ending = None
    try:
        while ending is None and not stopping.is_set():
            agent.turn(agent.pause)
            ending = judge(agent.state, mode)
    finally:
        if stopping.is_set():
            agent.display.say("stopping; unfinished results go on next time", agent.now())
        agent.end()
    return ending or Ending("stopped")


def judge(state: State, mode: Mode) -> Ending | None:
    """Say whether a run is over; None while it is not."""
    if mode == Mode.FOREVER or state.busy:
        return None
    endings = [_judge_project(state, project, mode) for project in state.projects.values()]
    if any(ending is None for ending in endings):
        return None
    troubles = [ending for ending in endings if ending is not None and ending.trouble]
    return troubles[0] if troubles else Ending("all results are finished and reported")


def _judge_project(state: State, project: Project, mode: Mode) -> Ending | None:
    if project.results:
        waiting = not project.in_phase(Phase.FETCHING, Phase.READY, Phase.RUNNING, Phase.UPLOADING)
        if waiting and project.rpc_failures >= _PATIENCE:
            kept = f"{len(project.results)} finished results are kept"
            return Ending(f"{project.url} does not answer; {kept}", Trouble.UNREACHABLE)
        return None
    if project.url not in state.contacted:
        failed = project.rpc_failures + project.master_failures
        enough = 1 if mode == Mode.ONCE else _PATIENCE
        if failed < enough:
            return None
        return Ending(f"{project.url} does not answer", Trouble.UNREACHABLE)
    if not project.hostid:
        told = project.last_message or "it gave no host number"
        return Ending(f"{project.url} does not accept this client: {told}", Trouble.REFUSED)
    no_more = project.work_failures > 0 or project.ended or project.has_no_cpu_apps
    if mode == Mode.ONCE or no_more:
        return Ending("idle")
    return None
