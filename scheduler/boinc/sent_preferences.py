"""Selects the stored preferences that a scheduler reply contains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from scheduler.boinc.wire import computing_prefs, project_prefs, stored_prefs
from scheduler.hosts.identity import Caller

_DEFAULT_PROJECT: Final = "<resource_share>100</resource_share>"


class SentPreferences(NamedTuple):
    """The texts of preferences for a client; `computing` is None if the client keeps its own.

    `unreadable` has the kinds of preferences that cannot be sent as they are stored.
    """

    computing: str | None
    project: str
    unreadable: tuple[str, ...]


def select(caller: Caller, prefs_mod_times: Iterable[float]) -> SentPreferences:
    """Return the preferences of an account for one of its clients.

    `prefs_mod_times` are the times of the client's computing preferences.  Those of the account are
    sent if they are newer, and have settings for the location of the host: with a text that has
    none, clients would turn off all settings that are on or off.
    """
    unreadable = []
    project = stored_prefs.sendable(caller.project_prefs, project_prefs.FORMAT)
    if project is None:
        unreadable.append("project")
    computing, form = None, computing_prefs.FORMAT
    # Most clients have the account's preferences already, so these are seldom parsed.
    if caller.global_prefs and caller.global_prefs_mod_time > max(prefs_mod_times):
        computing = stored_prefs.sendable(caller.global_prefs, form)
        if computing is None:
            unreadable.append("computing")
        elif not stored_prefs.has_settings(computing, caller.venue, form):
            computing = None
    return SentPreferences(computing, project or _DEFAULT_PROJECT, tuple(unreadable))
