"""Derives the state of a task list from its members.

A list is running while a host computes a member.  It is closed when every member is over: reported,
or ended without a report.  Else it is open, and ready to be claimed if each member that is not over
has an unsent result.  So a list whose host reported only some members is opened again with the
others.

This module uses no database, files or clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from scheduler.lifecycle import BundleState, Outcome, ServerState


class MemberFacts(NamedTuple):
    """A member of a task list, with its last result in that list.

    `is_listed` is whether the workunit still belongs to the list; a workunit that is tried again
    after a failure leaves it.  `has_ended` is whether the workunit has an answer or a reason why
    not.  The result's columns are None if the workunit had no result in the list yet.
    """

    bundle_id: int
    workunit_id: int
    is_listed: bool
    has_ended: bool
    result_id: int | None = None
    server_state: int | None = None
    outcome: int | None = None


class Phase(Enum):
    """The phase of a member of a list."""

    WAITING = "has no result that can be sent"
    READY = "has an unsent result"
    RUNNING = "is computed"
    OVER = "is over"


class ListState(NamedTuple):
    """The state of a list, and whether it can be claimed."""

    state: BundleState
    is_ready: bool


#: Outcomes of results that their host did not report: the member is sent again with its list.
_UNREPORTED = frozenset({Outcome.NO_REPLY, Outcome.CLIENT_DETACHED})


def phase_of(member: MemberFacts) -> Phase:
    """Return the phase of one member."""
    if member.server_state == ServerState.IN_PROGRESS:
        return Phase.RUNNING
    if member.has_ended or not member.is_listed:
        return Phase.OVER
    if member.server_state == ServerState.UNSENT:
        return Phase.READY
    if member.server_state == ServerState.OVER and member.outcome not in _UNREPORTED:
        return Phase.OVER
    return Phase.WAITING


def state_of(members: Iterable[MemberFacts]) -> ListState:
    """Return the state of a list with these members; a list without members is closed."""
    phases = {phase_of(member) for member in members}
    if Phase.RUNNING in phases:
        return ListState(BundleState.RUNNING, is_ready=False)
    if phases <= {Phase.OVER}:
        return ListState(BundleState.CLOSED, is_ready=False)
    return ListState(BundleState.OPEN, is_ready=Phase.WAITING not in phases)


def ready_results(members: Iterable[MemberFacts]) -> frozenset[int]:
    """Return the ids of the results with which a list can be claimed; empty if it cannot."""
    listed = list(members)
    if not state_of(listed).is_ready:
        return frozenset()
    return frozenset(
        member.result_id
        for member in listed
        if member.result_id is not None and phase_of(member) is Phase.READY
    )
