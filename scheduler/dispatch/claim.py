"""Claims what several hosts have chosen: lock, read, allot, write, once for all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import chain, zip_longest

from scheduler import sql, wakeups
from scheduler.dispatch.facts import Given
from scheduler.dispatch.rules import allotment
from scheduler.dispatch.rules.allotment import Allotted, Claim
from scheduler.dispatch.search import Search, low_water
from scheduler.hosts.facts import AppFacts, LockedWorkunit, Twin

#: So many workunits are looked up, beside those chosen, in case others hold these.
MOST_SPARE = 48


def claim(
    searches: Sequence[Search], *, apps: Mapping[int, AppFacts], now: datetime
) -> frozenset[int]:
    """Give each host what it has chosen or, where others hold that, what it has to spare.

    Returns the workunits that are no longer to be had: others hold them, or we do by now.
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
        [Claim(one.host, one.wishes, one.feasible, one.rooms.total) for one in searches],
        locked=locked,
        twins=_twins([workunit.id for workunit in locked]),
        apps=apps,
        now=now,
    )
    if not allotted:
        return
    given = _send(searches, allotted, now=now)
    for one in sorted(allotted, key=lambda one: one.result_id):
        searches[one.number].work.given.append(given[one.result_id])
        if not one.assignment.candidate.target_kind:
            low_water.gave((one.assignment.candidate.app_id, 0, 0))
    _commit(searches, allotted, apps, now=now)


def lock(workunit_ids: Sequence[int], most: int, *, now: datetime) -> list[LockedWorkunit]:
    """Lock the first of these workunits, up to `most`, passing over others' locks."""
    return sql.fetch_into(
        LockedWorkunit,
        "dispatch/lock_chosen_workunits",
        {"workunit_ids": list(workunit_ids), "most": most, "now": now},
    )


def _wanted(searches: Sequence[Search]) -> tuple[list[int], list[int]]:
    """The workunits chosen, and those to spare: of each host in turn, the best of each first."""
    chosen = dict.fromkeys(_turn_about([search.chosen_workunits for search in searches]))
    spare = dict.fromkeys(_turn_about([search.spare_workunits for search in searches]))
    others = [workunit_id for workunit_id in spare if workunit_id not in chosen]
    return list(chosen), others[: MOST_SPARE + len(chosen)]


def _turn_about(each: Sequence[Sequence[int]]) -> list[int]:
    return [one for one in chain.from_iterable(zip_longest(*each)) if one is not None]


def _twins(workunit_ids: Collection[int]) -> list[Twin]:
    wanted = {"workunit_ids": list(workunit_ids)}
    return sql.fetch_into(Twin, "dispatch/read_chosen_results", wanted)


def _send(
    searches: Sequence[Search], allotted: Sequence[Allotted], *, now: datetime
) -> dict[int, Given]:
    hosts = [searches[one.number].host for one in allotted]
    rows = sql.fetch_into(
        Given,
        "dispatch/claim_results",
        {
            "result_ids": [one.result_id for one in allotted],
            "host_ids": [host.id for host in hosts],
            "account_ids": [host.account_id for host in hosts],
            "app_version_ids": [one.assignment.version.id for one in allotted],
            "flops": [one.assignment.flops for one in allotted],
            "delays": [one.assignment.delay for one in allotted],
            "now": now,
        },
    )
    return {given.result_id: given for given in rows}


def _commit(
    searches: Sequence[Search],
    allotted: Sequence[Allotted],
    apps: Mapping[int, AppFacts],
    *,
    now: datetime,
) -> None:
    """Bind workunits to what their first result decides: class of hosts, version, replication."""
    binding: dict[int, Allotted] = {}
    replicate: set[int] = set()
    for one in allotted:
        candidate = one.assignment.candidate
        app = apps[candidate.app_id]
        if one.assignment.replicate:
            replicate.add(candidate.workunit_id)
        if one.assignment.replicate or app.hr_type > 0 or app.homogeneous_app_version:
            binding.setdefault(candidate.workunit_id, one)
    if not binding:
        return
    sql.execute(
        "dispatch/commit_workunits",
        {
            "workunit_ids": list(binding),
            "app_version_ids": [one.assignment.version.id for one in binding.values()],
            "hr_classes": [
                allotment.class_of(apps[one.assignment.candidate.app_id], searches[one.number].host)
                for one in binding.values()
            ],
            "replicate": [workunit_id in replicate for workunit_id in binding],
            "now": now,
        },
    )
    if replicate:
        wakeups.after_commit("transitioner")
