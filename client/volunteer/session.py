"""Runs the agent until the end condition of the mode is met."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from volunteer.records import Phase, Project, State

if TYPE_CHECKING:
    import threading

    from volunteer.agent import Agent

_MAX_FAILURES = 5


class Mode(StrEnum):
    """The condition that ends a run without a signal."""

    FOREVER = "forever"
    ONCE = "once"
    UNTIL_IDLE = "until-idle"


class Failure(StrEnum):
    """The reason why a run ended with unfinished work."""

    UNREACHABLE = "unreachable"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Ending:
    """The outcome of a run. `failure` is None after success."""

    message: str
    failure: Failure | None = None


def run(agent: Agent, mode: Mode, stopping: threading.Event) -> Ending:
    """Run turns of the agent until the condition of the mode is met or `stopping` is set."""
    agent.begin()
    ending = None
    try:
        while ending is None and not stopping.is_set():
            agent.turn(agent.pause)
            ending = judge(agent.state, mode)
    finally:
        if stopping.is_set():
            agent.display.print_line(
                "stopping; unfinished results resume in the next run", agent.now()
            )
        agent.end()
    return ending or Ending("stopped")


def judge(state: State, mode: Mode) -> Ending | None:
    """Return the outcome of the run, or None if the run must continue."""
    if mode == Mode.FOREVER or state.busy:
        return None
    endings = [_judge_project(state, project, mode) for project in state.projects.values()]
    if any(ending is None for ending in endings):
        return None
    failures = [ending for ending in endings if ending is not None and ending.failure]
    return failures[0] if failures else Ending("all results are finished and reported")


def _judge_project(state: State, project: Project, mode: Mode) -> Ending | None:
    if project.results:
        waiting = not project.in_phase(Phase.FETCHING, Phase.READY, Phase.RUNNING, Phase.UPLOADING)
        if waiting and project.rpc_failures >= _MAX_FAILURES:
            kept = f"{len(project.results)} finished results are kept"
            return Ending(f"{project.url} does not answer; {kept}", Failure.UNREACHABLE)
        return None
    if project.url not in state.contacted:
        failed = project.rpc_failures + project.master_failures
        enough = 1 if mode == Mode.ONCE else _MAX_FAILURES
        if failed < enough:
            return None
        return Ending(f"{project.url} does not answer", Failure.UNREACHABLE)
    if not project.hostid:
        reason = project.last_message or "it assigned no host id"
        return Ending(f"{project.url} does not accept this client: {reason}", Failure.REFUSED)
    no_more = project.work_failures > 0 or project.ended or project.has_no_cpu_apps
    if mode == Mode.ONCE or no_more:
        return Ending("idle")
    return None
