"""Claims what several hosts have chosen: locks, reads, allots and writes, once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import chain, zip_longest
from operator import attrgetter

from scheduler import sql, wakeups
from scheduler.dispatch.facts import AppFacts, AssignedResult, LockedWorkunit, SiblingResult
from scheduler.dispatch.rules import allotment
from scheduler.dispatch.rules.allotment import Allotted, Claim
from scheduler.dispatch.search import Search, low_water_marks

#: At most this many workunits are locked in addition to the chosen ones, in case others hold those.
MAX_SPARE_WORKUNITS = 48


def claim(
    searches: Sequence[Search], *, apps: Mapping[int, AppFacts], now: datetime
) -> frozenset[int]:
    """Assign each host its chosen results, or spare ones where others hold those.

    Returns the workunits that are no longer available: locked by others, or claimed here.
    """
    chosen, spare = _wanted(searches)
    locked = lock([*chosen, *spare], len(chosen), now=now)
    if locked:
        _claim_locked(searches, locked, apps, now=now)
    is_short = len(locked) < len(chosen)
    return frozenset([*chosen, *spare] if is_short else chosen)


def _claim_locked(
    searches: Sequence[Search],
    locked: Sequence[LockedWorkunit],
    apps: Mapping[int, AppFacts],
    *,
    now: datetime,
) -> None:
    allotted = allotment.allot(
        [
            Claim(search.host, search.work_requests, search.feasible, search.headroom.total)
            for search in searches
        ],
        locked=locked,
        sibling_results=_sibling_results([workunit.id for workunit in locked]),
        apps=apps,
        now=now,
    )
    if not allotted:
        return
    assigned = _send(searches, allotted, now=now)
    for allotted_result in sorted(allotted, key=attrgetter("result_id")):
        searches[allotted_result.number].work.assigned.append(assigned[allotted_result.result_id])
        if not allotted_result.assignment.candidate.target_kind:
            low_water_marks.count_sent((allotted_result.assignment.candidate.app_id, 0, 0))
    _commit(searches, allotted, apps, now=now)


def lock(workunit_ids: Sequence[int], most: int, *, now: datetime) -> list[LockedWorkunit]:
    """Lock the first of these workunits, up to `most`, skipping rows locked by others."""
    return sql.fetch_into(
        LockedWorkunit,
        "dispatch/lock_chosen_workunits",
        {"workunit_ids": list(workunit_ids), "most": most, "now": now},
    )


def _wanted(searches: Sequence[Search]) -> tuple[list[int], list[int]]:
    """Return the chosen workunits and the spare ones.

    Both take one of each host in turn, the best first.
    """
    chosen = dict.fromkeys(_interleave([search.chosen_workunits for search in searches]))
    spare = dict.fromkeys(_interleave([search.spare_workunits for search in searches]))
    others = [workunit_id for workunit_id in spare if workunit_id not in chosen]
    return list(chosen), others[: MAX_SPARE_WORKUNITS + len(chosen)]


def _interleave(each: Sequence[Sequence[int]]) -> list[int]:
    return [id_ for id_ in chain.from_iterable(zip_longest(*each)) if id_ is not None]


def _sibling_results(workunit_ids: Collection[int]) -> list[SiblingResult]:
    wanted = {"workunit_ids": list(workunit_ids)}
    return sql.fetch_into(SiblingResult, "dispatch/read_chosen_results", wanted)


def _send(
    searches: Sequence[Search], allotted: Sequence[Allotted], *, now: datetime
) -> dict[int, AssignedResult]:
    hosts = [searches[allotted_result.number].host for allotted_result in allotted]
    rows = sql.fetch_into(
        AssignedResult,
        "dispatch/claim_results",
        {
            "result_ids": [allotted_result.result_id for allotted_result in allotted],
            "host_ids": [host.id for host in hosts],
            "account_ids": [host.account_id for host in hosts],
            "app_version_ids": [
                allotted_result.assignment.version.id for allotted_result in allotted
            ],
            "flops": [allotted_result.assignment.flops for allotted_result in allotted],
            "delays": [allotted_result.assignment.delay for allotted_result in allotted],
            "now": now,
        },
    )
    return {row.result_id: row for row in rows}


def _commit(
    searches: Sequence[Search],
    allotted: Sequence[Allotted],
    apps: Mapping[int, AppFacts],
    *,
    now: datetime,
) -> None:
    """Bind workunits to what their first result decides: host class, version, replication."""
    binding: dict[int, Allotted] = {}
    replicate: set[int] = set()
    for allotted_result in allotted:
        candidate = allotted_result.assignment.candidate
        app = apps[candidate.app_id]
        if allotted_result.assignment.replicate:
            replicate.add(candidate.workunit_id)
        if allotted_result.assignment.replicate or app.hr_type > 0 or app.homogeneous_app_version:
            binding.setdefault(candidate.workunit_id, allotted_result)
    if not binding:
        return
    sql.execute(
        "dispatch/commit_workunits",
        {
            "workunit_ids": list(binding),
            "app_version_ids": [
                allotted_result.assignment.version.id for allotted_result in binding.values()
            ],
            "hr_classes": [
                allotment.class_of(
                    apps[allotted_result.assignment.candidate.app_id],
                    searches[allotted_result.number].host,
                )
                for allotted_result in binding.values()
            ],
            "replicate": [workunit_id in replicate for workunit_id in binding],
            "now": now,
        },
    )
    if replicate:
        wakeups.after_commit("transitioner")
