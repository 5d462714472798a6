"""Decides which host receives which result of the locked workunits.

This is the last check before results are sent.  The facts are final only under the locks: the state
and host of every result, and the host class and app version of every workunit.

This module uses no database, files or clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from scheduler.dispatch.facts import (
    AppFacts,
    Assignment,
    HostFacts,
    LockedWorkunit,
    SiblingResult,
    WorkRequest,
)
from scheduler.dispatch.rules import selection
from scheduler.lifecycle import Outcome, ServerState, Target


class Claim(NamedTuple):
    """A host's feasible assignments by device, best first, and the maximum number to allot."""

    host: HostFacts
    work_requests: Sequence[WorkRequest]
    feasible: Mapping[str, Sequence[Assignment]]
    max_results: int


class Allotted(NamedTuple):
    """A result to send to a host; `number` is the index of its claim."""

    number: int
    result_id: int
    assignment: Assignment


@dataclass(slots=True)
class _LockedState:
    """A locked workunit with its binding, its results, and the allotted hosts by result id."""

    bound: LockedWorkunit
    sibling_results: list[SiblingResult] = field(default_factory=list)
    allotted: dict[int, HostFacts] = field(default_factory=dict)


def allot(
    claims: Sequence[Claim],
    *,
    locked: Iterable[LockedWorkunit],
    sibling_results: Iterable[SiblingResult],
    apps: Mapping[int, AppFacts],
    now: datetime,
) -> list[Allotted]:
    """Allot unsent results of the locked workunits to each host, in the order of its assignments.

    A host gets at most the results that meet its work requests.
    """
    states = {workunit.id: _LockedState(workunit) for workunit in locked}
    for sibling in sibling_results:
        states[sibling.workunit_id].sibling_results.append(sibling)
    allotted: list[Allotted] = []
    for number, claim in enumerate(claims):
        max_results = claim.max_results
        for request in claim.work_requests:
            assignments = claim.feasible.get(request.device, ())
            needed = selection.needed(assignments, request, max_results=max_results)
            device_results = _allot_device(
                number, claim.host, assignments, needed, states, apps=apps, now=now
            )
            allotted += device_results
            max_results -= len(device_results)
    return allotted


def _allot_device(
    number: int,
    host: HostFacts,
    assignments: Sequence[Assignment],
    max_results: int,
    states: Mapping[int, _LockedState],
    *,
    apps: Mapping[int, AppFacts],
    now: datetime,
) -> list[Allotted]:
    allotted: list[Allotted] = []
    for assignment in assignments:
        if len(allotted) >= max_results:
            break
        state = states.get(assignment.candidate.workunit_id)
        app = apps[assignment.candidate.app_id]
        own_class = class_of(app, host)
        if state is None or is_bound_elsewhere(state.bound, assignment.version.id, own_class):
            continue
        if any(_bars(sibling, host, app, now=now) for sibling in state.sibling_results) or any(
            _is_kept_apart(other, host, app) for other in state.allotted.values()
        ):
            continue
        free = next(
            (
                sibling
                for sibling in state.sibling_results
                if _is_free(sibling, state, host, assignment.candidate.queue_id)
            ),
            None,
        )
        if free is not None:
            state.allotted[free.id] = host
            own_version_id = assignment.version.id if app.homogeneous_app_version else None
            state.bound = state.bound._replace(
                hr_class=state.bound.hr_class or own_class,
                app_version_id=state.bound.app_version_id or own_version_id,
            )
            allotted.append(Allotted(number, free.id, assignment))
    return allotted


def may_send(
    assignment: Assignment,
    *,
    bound: LockedWorkunit,
    sibling_results: Iterable[SiblingResult],
    host: HostFacts,
    app: AppFacts,
    now: datetime,
) -> bool:
    """Whether a locked workunit's result may go to this host, by its binding and its results."""
    if is_bound_elsewhere(bound, assignment.version.id, class_of(app, host)):
        return False
    return not any(_bars(sibling, host, app, now=now) for sibling in sibling_results)


def class_of(app: AppFacts | None, host: HostFacts) -> int:
    """Return the host class to which this host binds workunits of the app; 0 means no class."""
    return host.hr_classes.get(app.hr_type, 0) if app is not None and app.hr_type else 0


def is_bound_elsewhere(workunit: LockedWorkunit, version_id: int | None, hr_class: int) -> bool:
    """Return True if a workunit is bound to another host class or app version."""
    return bool(workunit.hr_class and workunit.hr_class != hr_class) or (
        workunit.app_version_id is not None and workunit.app_version_id != version_id
    )


def _is_free(sibling: SiblingResult, state: _LockedState, host: HostFacts, queue_id: int) -> bool:
    """Return True if a result is unsent, not yet allotted, and may go to this host.

    `queue_id` is the queue of the candidate, which permits results of this queue only, or 0.
    """
    if sibling.server_state != ServerState.UNSENT or sibling.id in state.allotted:
        return False
    if queue_id or sibling.target_kind == Target.QUEUE:
        return (sibling.target_kind, sibling.target_id) == (Target.QUEUE, queue_id)
    return sibling.target_kind == Target.EVERYBODY or _is_mine(sibling, host)


def _is_mine(sibling: SiblingResult, host: HostFacts) -> bool:
    """Return True if a result is targeted at this host, its account or its team."""
    target_ids = {Target.HOST: host.id, Target.ACCOUNT: host.account_id, Target.TEAM: host.team_id}
    kind = Target(sibling.target_kind)
    # Results of task lists are sent by `bundle_claims` only.
    return kind in target_ids and target_ids[kind] == sibling.target_id


def _bars(sibling: SiblingResult, host: HostFacts, app: AppFacts, *, now: datetime) -> bool:
    """Return True if a sibling result excludes this host from another result of the workunit.

    A host never holds two results of a workunit at once.  An account or host (the app's
    `one_result_per`) gets a second result only if the first one ended without success, at least
    `retry_same_account_after` ago.
    """
    if sibling.host_id == host.id and sibling.server_state == ServerState.IN_PROGRESS:
        return True
    if not _is_same(sibling.host_id, sibling.account_id, host, app):
        return False
    return not (
        sibling.server_state == ServerState.OVER
        and sibling.outcome != Outcome.SUCCESS
        and (sibling.ended_at is None or sibling.ended_at + app.retry_same_account_after <= now)
    )


def _is_kept_apart(other: HostFacts, host: HostFacts, app: AppFacts) -> bool:
    """Return True if a result allotted to `other` excludes this host from the same workunit."""
    return other.id == host.id or _is_same(other.id, other.account_id, host, app)


def _is_same(host_id: int | None, account_id: int | None, host: HostFacts, app: AppFacts) -> bool:
    if app.one_result_per == "account":
        return account_id == host.account_id
    return app.one_result_per == "host" and host_id == host.id
