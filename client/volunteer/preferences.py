"""Selects the computing preferences in force and computes their effect.

The newest preferences of any project are in force, as in BOINC's client. The options of the client
override single values, and `--ignore-preferences` disables all preferences.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from volunteer.config import DAY, Rules
from volunteer.events import Command, Print
from volunteer.records import Project, ReceivedPreferences, State
from volunteer.wire.computing import (
    GlobalPreferences,
    global_preferences,
    mod_time_of,
    preferences_fault,
)

if TYPE_CHECKING:
    from volunteer.events import Tick
    from volunteer.wire.messages import Reply


def take_preferences(
    state: State, project: Project, reply: Reply, now: float
) -> tuple[State, list[Command]]:
    """Store the preferences of a reply if they are newer than the stored preferences.

    Malformed preferences are not stored, and a line with the reason is printed.
    """
    text = reply.global_preferences
    if not text:
        return state, []
    name = project.account.project_name or project.url
    if fault := preferences_fault(text):
        return state, [Print(f"{name}: its computing preferences are refused: {fault}")]
    # A future time counts as now. Otherwise no other project could send newer preferences.
    mod_time = min(mod_time_of(text), now)
    former = state.received_preferences
    if mod_time <= former.mod_time:
        return state, []
    received = ReceivedPreferences(project.url, mod_time, text)
    state = replace(state, received_preferences=received)
    if text == former.text:
        return state, []
    line = f"{name}: new computing preferences"
    if names := global_preferences(text, project.venue).without_effect:
        line += f"; without effect here: {', '.join(names)}"
    return state, [Print(line)]


def without_preferences_of(state: State, project_url: str) -> State:
    """Return the state without the preferences that a project sent."""
    if state.received_preferences.source != project_url:
        return state
    return replace(state, received_preferences=ReceivedPreferences())


def preferences_in_force(state: State, rules: Rules) -> GlobalPreferences:
    """Return the computing preferences in force, in which options override received values.

    `mod_time` is the time of the received preferences even if they are ignored. With an older time,
    projects would send the preferences in every reply.
    """
    received = state.received_preferences
    preferences = GlobalPreferences(work_buf_min_days=rules.buffer_seconds / DAY)
    source = state.projects.get(received.source)
    if source is not None and not rules.ignores_preferences:
        preferences = global_preferences(received.text, source.venue)
        has_buffer = "<work_buf_" in received.text
        if rules.has_own_buffer or not has_buffer:
            preferences = replace(
                preferences,
                work_buf_min_days=rules.buffer_seconds / DAY,
                work_buf_additional_days=0.0,
            )
        if rules.has_own_slots:
            preferences = replace(preferences, max_ncpus_pct=100.0)
    return replace(preferences, mod_time=received.mod_time, source_project=received.source)


def working_rules(rules: Rules, state: State) -> Rules:
    """Return the rules with the processors, memory and buffer that the preferences allow."""
    if not state.received_preferences.source or rules.ignores_preferences:
        return rules
    preferences = preferences_in_force(state, rules)
    days = preferences.work_buf_min_days + preferences.work_buf_additional_days
    slots = max(1, int(rules.slots * preferences.max_ncpus_pct / 100))
    memory = rules.memory_bytes * preferences.ram_max_used_idle_pct / 100
    return replace(rules, slots=slots, buffer_seconds=days * DAY, memory_bytes=memory)


def pause_reason(state: State, tick: Tick, rules: Rules) -> str:
    """Return the reason why no program may run now, or an empty string."""
    preferences = preferences_in_force(state, rules)
    if tick.on_batteries and not preferences.run_on_batteries:
        return "this computer runs on batteries"
    if not preferences.allow(tick.weekday, tick.hour):
        return "the preferences do not allow computing at this hour"
    return ""


def preferences_for(state: State, project: Project) -> tuple[str, str]:
    """Return the received preferences and the e-mail hash to send to a project.

    Both are empty unless the project has the same hash as the project that sent the preferences.
    BOINC's clients up to version 7 send preferences to every project, but a project with another
    hash does not store them.
    """
    received = state.received_preferences
    source = state.projects.get(received.source)
    account_hash = source.account.email_hash if source is not None else ""
    if not account_hash or project.account.email_hash != account_hash:
        return "", ""
    return received.text, account_hash
