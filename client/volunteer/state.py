"""Applies events to the state of the client, and returns commands for the agent.

The functions are pure. They use no network, no files and no clock. At a `Tick`, the module `plan`
returns the commands that can begin. The agent saves the state before it executes the commands. If
the client is killed between these two steps, the next run repeats the commands.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

# `runs`, `talk` and `transfers` are imported because they register event handlers.
from volunteer import events, runs, talk, transfers
from volunteer.dispatch import Step, apply
from volunteer.events import ClearSlot, Command, Event, Forget, Kill, Print
from volunteer.intake import abort_early, abort_results, remember_aborts, take_reply
from volunteer.names import folded
from volunteer.plan import after_error, next_commands
from volunteer.preferences import pause_reason, without_preferences_of, working_rules
from volunteer.records import Phase, Project, State
from volunteer.wire.messages import Account
from volunteer.wire.web import folder_name

if TYPE_CHECKING:
    from volunteer.config import Rules
    from volunteer.wire.messages import Reply

#: A claimed result is not sent while another transaction has locked its workunit, for example the
#: claim of a rival, so it is requested again. After this number of replies without it, it is
#: assumed to have ended.
MAX_REQUESTS_FOR_CLAIMED = 5

__all__ = ["Step", "advance", "runs", "talk", "transfers"]


def advance(state: State, event: Event, rules: Rules) -> Step:
    """Apply one event, and return the new state and the commands for the agent."""
    if isinstance(event, events.ProjectEvent) and not isinstance(event, events.Attached):
        project = state.projects.get(event.project)
        # Events of detached projects and of deleted results are ignored.
        if project is None or (
            isinstance(event, events.ResultEvent) and event.result not in project.results
        ):
            return state, []
    return apply(event, state, working_rules(rules, state))


@apply.register(events.Tick)
def _(event: events.Tick, state: State, rules: Rules) -> Step:
    reason = pause_reason(state, event, rules)
    commands: list[Command] = []
    if reason != state.paused:
        commands = [Print(f"programs pause: {reason}" if reason else "programs may run again")]
        state = replace(state, paused=reason)
    state, more = next_commands(state, event, rules)
    return state, commands + more


@apply.register(events.Attached)
def _(event: events.Attached, state: State, _rules: Rules) -> Step:
    attached = state.projects.get(event.project)
    folder = folded(folder_name(event.project))
    others = [url for url in state.projects if url != event.project]
    same = [url for url in others if folded(folder_name(url)) == folder]
    if same:
        # Two projects in one folder could replace each other's files.
        text = (
            f"not attached to {event.project}: it needs the same folder as {same[0]}; "
            "detach that project first"
        )
        return state, [Print(text)]
    if attached is not None and attached.key != event.key and not event.replaces:
        return state, [Print(f"still attached to {event.project} with the former account")]
    if attached is not None:
        project = replace(attached, key=event.key, update_wanted=True)
    else:
        project = Project(event.project, event.key, Account(project_name=event.name))
    project = replace(project, scheduler_urls=event.scheduler_urls or project.scheduler_urls)
    return state.with_project(project), [Print(f"attached to {event.project}")]


@apply.register(events.Detached)
def _(event: events.Detached, state: State, _rules: Rules) -> Step:
    project = state.projects[event.project]
    commands: list[Command] = []
    for held_result in project.results.values():
        if held_result.phase == Phase.RUNNING:
            commands.append(Kill(project.url, held_result.name))
        if held_result.slot >= 0:
            commands.append(ClearSlot(held_result.slot))
    rest = {url: other for url, other in state.projects.items() if url != event.project}
    commands += [Forget(event.project), Print(f"detached from {event.project}")]
    return replace(without_preferences_of(state, event.project), projects=rest), commands


@apply.register(events.UpdateWanted)
def _(event: events.UpdateWanted, state: State, _rules: Rules) -> Step:
    project = state.projects[event.project]
    project = replace(project, update_wanted=True, work_retry_at=0.0, work_failures=0)
    return state.with_project(project), []


@apply.register(events.SuspendWanted)
@apply.register(events.ResumeWanted)
def _(event: events.SuspendWanted | events.ResumeWanted, state: State, _rules: Rules) -> Step:
    suspends = isinstance(event, events.SuspendWanted)
    project = replace(state.projects[event.project], is_suspended=suspends)
    outcome = "suspended" if suspends else "resumed"
    return state.with_project(project), [Print(f"{event.project} {outcome}")]


@apply.register(events.RunBegan)
def _(event: events.RunBegan, state: State, _rules: Rules) -> Step:
    project = replace(
        state.projects[event.project],
        contact_by=event.now,
        rpc_retry_at=0.0,
        rpc_failures=0,
        work_retry_at=0.0,
        work_failures=0,
        master_retry_at=0.0,
        master_failures=0,
    )
    return state.with_project(project), []


@apply.register(events.MasterPageRead)
def _(event: events.MasterPageRead, state: State, rules: Rules) -> Step:
    state = state.done_with(f"ask {event.project}")
    project = state.projects[event.project]
    if event.scheduler_urls:
        project = replace(
            project,
            scheduler_urls=event.scheduler_urls,
            master_failures=0,
            rpc_failures=project.rpc_failures + 1 if project.rpc_failures else 0,
        )
        return state.with_project(project), []
    failures = project.master_failures + 1
    wait = rules.rpc_backoff(failures, event.chance)
    project = replace(
        project, master_failures=failures, master_retry_at=event.now + wait, update_wanted=False
    )
    text = f"{event.project} has no scheduler address: {event.reason}; retry in {wait:.0f} s"
    return state.with_project(project), [Print(text)]


@apply.register(events.AbortsReceived)
def _(event: events.AbortsReceived, state: State, _rules: Rules) -> Step:
    project = remember_aborts(state.projects[event.project], event.names)
    project, commands = abort_results(project, event.names, (), event.now)
    return state.with_project(project), commands


@apply.register(events.WorkClaimed)
def _(event: events.WorkClaimed, state: State, rules: Rules) -> Step:
    state = state.done_with(f"claim {event.project}")
    project = state.projects[event.project]
    if event.name:
        return state.with_project(replace(project, claimed=event.name, work_failures=0)), []
    wait = rules.sleep_after_no_process_claimed
    project = replace(
        project, work_failures=project.work_failures + 1, work_retry_at=event.now + wait
    )
    text = f"{event.project}: nothing was claimed: {event.reason}"
    return state.with_project(project), [Print(text)] if event.reason else []


@apply.register(events.RequestFailed)
def _(event: events.RequestFailed, state: State, rules: Rules) -> Step:
    state = state.done_with(f"ask {event.project}")
    project = state.projects[event.project]
    failures = project.rpc_failures + 1
    wait = rules.rpc_backoff(failures, event.chance)
    project = replace(
        project,
        rpc_failures=failures,
        rpc_retry_at=event.now + wait,
        next_scheduler=project.next_scheduler + 1,
        contact_by=_retry_by(project, event.now, rules),
    )
    text = f"{event.project} did not answer: {event.reason}; retry in {wait:.0f} s"
    return state.with_project(project), [Print(text)]


@apply.register(events.ReplyReceived)
def _(event: events.ReplyReceived, state: State, rules: Rules) -> Step:
    state = state.done_with(f"ask {event.project}")
    project, reply = state.projects[event.project], event.reply
    if reply.is_down:
        failures = project.rpc_failures + 1
        wait = max(reply.request_delay, rules.rpc_backoff(failures, event.chance))
        project = replace(
            project,
            rpc_failures=failures,
            rpc_retry_at=event.now + wait,
            contact_by=_retry_by(project, event.now, rules),
        )
        text = f"{event.project} is down for maintenance; retry in {wait:.0f} s"
        return state.with_project(project), [Print(text)]
    project = replace(
        project,
        rpc_failures=0,
        rpc_retry_at=0.0,
        master_failures=0,
        next_contact_at=event.now + rules.contact_delay(reply.request_delay),
        contact_by=_next_by(project, reply, event.now, rules),
    )
    before = set(project.results)
    state, project, commands = take_reply(state, project, reply, event.now)
    new = [held_result for name, held_result in project.results.items() if name not in before]
    refused = sum(held_result.verdict is not None for held_result in new)
    if rules.pool and refused < len(new):
        latest = event.now + rules.acknowledge_seconds
        project = replace(project, contact_by=min(project.contact_by or latest, latest))
    project, aborted = abort_early(project, event.now)
    commands += aborted
    if refused:
        project = after_error(project, event, rules)
    # A reply can have other results than the claimed one.
    has_work = project.claimed in project.results if project.claimed else bool(new)
    if project.asked_seconds > 0 and (not has_work or refused < len(new)):
        project = _count_answer(project, event, rules, has_work=has_work)
        if not new:
            wait = max(project.work_retry_at, project.next_contact_at) - event.now
            name = project.account.project_name or project.url
            commands.append(Print(f"{name}: no work was sent; next request in {wait:.0f} s"))
    if has_work or project.work_failures >= MAX_REQUESTS_FOR_CLAIMED:
        project = replace(project, claimed="")
    contacted = state.contacted | {event.project}
    return replace(state.with_project(project), contacted=contacted), commands


def _next_by(project: Project, reply: Reply, now: float, rules: Rules) -> float:
    """Return the latest time of the next contact: that of the server, or of a retry; else 0.

    A reply without an account is a refusal, for example of a host whose other request is being
    answered: it acknowledges nothing.
    """
    if reply.next_rpc_delay:
        return now + reply.next_rpc_delay
    return 0.0 if reply.account.userid else _retry_by(project, now + reply.request_delay, rules)


def _retry_by(project: Project, at: float, rules: Rules) -> float:
    """Return `at` in a pool with unfinished results, else the present `contact_by`.

    The failed contact may have been the one that acknowledges results. The back-off after failures
    applies nevertheless.
    """
    unfinished = (Phase.FETCHING, Phase.READY, Phase.RUNNING, Phase.UPLOADING)
    is_due = rules.pool and project.in_phase(*unfinished)
    return at if is_due else project.contact_by


def _count_answer(
    project: Project, event: events.ReplyReceived, rules: Rules, *, has_work: bool
) -> Project:
    """Return the project with the delay until its next work request.

    The delay is zero after a reply with work, and grows with each consecutive reply without work.
    """
    if has_work:
        return replace(project, work_failures=0, work_retry_at=0.0)
    failures = project.work_failures + 1
    if rules.pool:
        wait = rules.sleep_after_no_process_claimed
        return replace(project, work_failures=failures, work_retry_at=event.now + wait)
    wait = rules.work_backoff(failures, event.chance)
    if event.reply.next_rpc_delay > 0:
        # The project expects work after this delay. BOINC's client also requests work then.
        wait = min(wait, event.reply.next_rpc_delay)
    return replace(project, work_failures=failures, work_retry_at=event.now + wait)
