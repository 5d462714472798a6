"""Judges whether a host can compute a task list, and how long it may hold it.

A host gets a list as a whole or not at all.  The limits on the number of results of a host apply to
the first member only: a list runs on one slot, and a list longer than the limit must be sendable.

This module uses no database, files or clock.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple

from scheduler.dispatch.facts import AppFacts, Assignment, Candidate, VersionFacts, WorkRequest
from scheduler.dispatch.rules import selection
from scheduler.dispatch.rules.fit import SENSOR, Judge, RefusalReason, Refused

#: The maximum of `delay_bound`, too; a later deadline could be after the year 9999.
MAX_LEASE: Final = timedelta(days=36_525)


class Member(NamedTuple):
    """An unsent result of a task list.

    `by_hosts` and `by_accounts` are requesting hosts and accounts that must not receive it.
    `expected_seconds` is the submitter's estimate, or None.
    """

    candidate: Candidate
    is_sendable: bool
    by_hosts: Collection[int] = ()
    by_accounts: Collection[int] = ()
    expected_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadList:
    """A task list as it was read, with its members in order."""

    id: int
    members: tuple[Member, ...]

    @property
    def app_id(self) -> int:
        return self.members[0].candidate.app_id

    @property
    def is_sendable(self) -> bool:
        return all(member.is_sendable for member in self.members)


class Offer(NamedTuple):
    """A list that a host may receive: the assignments of its members, in order."""

    bundle_id: int
    assignments: tuple[Assignment, ...]
    seconds: float

    @property
    def workunit_ids(self) -> list[int]:
        return [assignment.candidate.workunit_id for assignment in self.assignments]

    @property
    def result_ids(self) -> frozenset[int]:
        return frozenset(assignment.candidate.result_id for assignment in self.assignments)


class MemberJudge(Judge):
    """Judges the members of one list after the other; the first one must be within the limits."""

    is_begun = False

    def _over_limit(self, app: AppFacts, version: VersionFacts) -> Refused | None:
        return None if self.is_begun else super()._over_limit(app, version)


def offer(
    bundle: ReadList, judge: MemberJudge, request: WorkRequest, *, lease_factor: float
) -> Offer | Refused | None:
    """Return the offer of a list to the judge's host, or the first refusal.

    Returns None if the list is not for the requested device, or not for this host by the app's
    `one_result_per`.  All members get the same deadline: the lease of the list, which is the sum of
    the expected run times, times `lease_factor`.
    """
    host = judge.host
    if request.device == SENSOR or any(
        host.id in (member.by_hosts or ()) or host.account_id in (member.by_accounts or ())
        for member in bundle.members
    ):
        return None
    assignments: list[Assignment] = []
    judge.is_begun = False
    for member in bundle.members:
        # The deadline is checked below, for the whole list.
        verdict = judge.judge(member.candidate, request.device, 0.0)
        if not isinstance(verdict, Assignment):
            _undo(judge, assignments)
            return verdict
        judge.is_begun = True
        assignments.append(verdict)
    if refusal := _late(bundle, assignments, request, lease_factor):
        _undo(judge, assignments)
        return refusal
    delay = lease(bundle, assignments, lease_factor)
    return Offer(
        bundle.id,
        tuple(assignment._replace(delay=delay) for assignment in assignments),
        _run_time(bundle, assignments),
    )


def _undo(judge: MemberJudge, assignments: Sequence[Assignment]) -> None:
    for assignment in assignments:
        judge.take(assignment.candidate, assignment.version, count=-1)


def lease(bundle: ReadList, assignments: Sequence[Assignment], lease_factor: float) -> timedelta:
    """Return the time after which members that the host has not reported are sent again.

    It is at most `MAX_LEASE`, whatever run times the submitter gives.
    """
    seconds = lease_factor * _run_time(bundle, assignments)
    return timedelta(seconds=min(seconds, MAX_LEASE.total_seconds()))


def _run_time(bundle: ReadList, assignments: Sequence[Assignment]) -> float:
    return sum(
        assignment.seconds if member.expected_seconds is None else member.expected_seconds
        for member, assignment in zip(bundle.members, assignments, strict=True)
    )


def _late(
    bundle: ReadList,
    assignments: Sequence[Assignment],
    request: WorkRequest,
    lease_factor: float,
) -> Refused | None:
    seconds = _run_time(bundle, assignments)
    if request.queued_seconds <= 0 or request.queued_seconds + seconds <= lease_factor * seconds:
        return None
    return RefusalReason.DEADLINE, (
        f"A task list won't finish in time: {request.queued_seconds:.0f} seconds are queued."
    )


def needed(offers: Sequence[Offer], request: WorkRequest) -> int:
    """Return the number of offers, in order, that meet a request.

    A list runs one member at a time, and counts with the processors (or GPUs) of the member that
    uses most of them.
    """
    seconds, instances = request.seconds, request.instances
    for count, each in enumerate(offers):
        if seconds <= 0 and instances <= 0:
            return count
        used = max(selection.used_by(assignment, request.device) for assignment in each.assignments)
        seconds -= each.seconds * used
        instances -= used
    return len(offers)
