"""Who is given which result of the workunits locked for several hosts [pure].

The last judgement before results are sent: only now, under the locks, it is certain which results
are left, who has or had the others, and to what a workunit is bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from scheduler.dispatch.rules import selection
from scheduler.hosts.facts import AppFacts, Assignment, HostFacts, LockedWorkunit, Twin, Wish
from scheduler.lifecycle import Outcome, ServerState, Target


class Claim(NamedTuple):
    """One host's claim: what it may have for each of its wishes, best first; `room` in all."""

    host: HostFacts
    wishes: Sequence[Wish]
    feasible: Mapping[str, Sequence[Assignment]]
    room: int


class Allotted(NamedTuple):
    """A result that a host shall be sent; the number is that of its claim."""

    number: int
    result_id: int
    assignment: Assignment


@dataclass(slots=True)
class _Ground:
    """One locked workunit: to what it is bound, its results, and what is allotted of them."""

    bound: LockedWorkunit
    twins: list[Twin] = field(default_factory=list)
    allotted: dict[int, HostFacts] = field(default_factory=dict)


def allot(
    claims: Sequence[Claim],
    *,
    locked: Iterable[LockedWorkunit],
    twins: Iterable[Twin],
    apps: Mapping[int, AppFacts],
    now: datetime,
) -> list[Allotted]:
    """Give each host as much as it needs, in its own order, of what is locked and still free."""
    grounds = {workunit.id: _Ground(workunit) for workunit in locked}
    for twin in twins:
        grounds[twin.workunit_id].twins.append(twin)
    allotted: list[Allotted] = []
    for number, claim in enumerate(claims):
        room = claim.room
        for wish in claim.wishes:
            found = claim.feasible.get(wish.device, ())
            most = selection.needed(found, wish, room=room)
            given = _for_one_wish(number, claim.host, found, most, grounds, apps=apps, now=now)
            allotted += given
            room -= len(given)
    return allotted


def _for_one_wish(
    number: int,
    host: HostFacts,
    found: Sequence[Assignment],
    most: int,
    grounds: Mapping[int, _Ground],
    *,
    apps: Mapping[int, AppFacts],
    now: datetime,
) -> list[Allotted]:
    given: list[Allotted] = []
    for assignment in found:
        if len(given) >= most:
            break
        ground = grounds.get(assignment.candidate.workunit_id)
        app = apps[assignment.candidate.app_id]
        own_class = class_of(app, host)
        if ground is None or is_bound_elsewhere(ground.bound, assignment.version.id, own_class):
            continue
        if any(_bars(twin, host, app, now=now) for twin in ground.twins) or any(
            _is_kept_apart(other, host, app) for other in ground.allotted.values()
        ):
            continue
        free = next((twin for twin in ground.twins if _is_free(twin, ground, host)), None)
        if free is not None:
            ground.allotted[free.id] = host
            ground.bound = _bound(ground.bound, assignment.version.id, own_class, app)
            given.append(Allotted(number, free.id, assignment))
    return given


def class_of(app: AppFacts | None, host: HostFacts) -> int:
    """The class of computers to which this host binds a workunit of the app; 0: to none."""
    return host.hr_classes.get(app.hr_type, 0) if app is not None and app.hr_type else 0


def is_bound_elsewhere(workunit: LockedWorkunit, version_id: int | None, hr_class: int) -> bool:
    """Whether a workunit went, meanwhile, to another class of computers, or another version."""
    return bool(workunit.hr_class and workunit.hr_class != hr_class) or (
        workunit.app_version_id is not None and workunit.app_version_id != version_id
    )


def _bound(
    workunit: LockedWorkunit, version_id: int, hr_class: int, app: AppFacts
) -> LockedWorkunit:
    return LockedWorkunit(
        id=workunit.id,
        hr_class=workunit.hr_class or hr_class,
        app_version_id=workunit.app_version_id
        or (version_id if app.homogeneous_app_version else None),
    )


def _is_free(twin: Twin, ground: _Ground, host: HostFacts) -> bool:
    """Whether a result may be sent to this host: unsent, not given away, and nobody else's."""
    return (
        twin.server_state == ServerState.UNSENT
        and twin.id not in ground.allotted
        and (twin.target_kind == Target.EVERYBODY or _is_mine(twin, host))
    )


def _is_mine(twin: Twin, host: HostFacts) -> bool:
    """Whether a result is for this host, its account or its team alone."""
    mine = {Target.HOST: host.id, Target.ACCOUNT: host.account_id, Target.TEAM: host.team_id}
    return mine[Target(twin.target_kind)] == twin.target_id


def _bars(twin: Twin, host: HostFacts, app: AppFacts, *, now: datetime) -> bool:
    """Whether a result that somebody has or had keeps the host from another of its workunit.

    Never two live ones on one host; and one per account or host, as the app says, unless the
    earlier one ended without success long enough ago.
    """
    if twin.host_id == host.id and twin.server_state == ServerState.IN_PROGRESS:
        return True
    if not _is_same(twin.host_id, twin.account_id, host, app):
        return False
    return not (
        twin.server_state == ServerState.OVER
        and twin.outcome != Outcome.SUCCESS
        and (twin.ended_at is None or twin.ended_at + app.retry_same_account_after <= now)
    )


def _is_kept_apart(other: HostFacts, host: HostFacts, app: AppFacts) -> bool:
    """Whether what another host is given at this moment keeps this one from a twin of it."""
    return other.id == host.id or _is_same(other.id, other.account_id, host, app)


def _is_same(host_id: int | None, account_id: int | None, host: HostFacts, app: AppFacts) -> bool:
    if app.one_result_per == "account":
        return account_id == host.account_id
    return app.one_result_per == "host" and host_id == host.id
