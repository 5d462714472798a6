"""Claims the chosen results of several hosts with one set of statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain, zip_longest
from operator import attrgetter

from scheduler import sql, wakeups
from scheduler.dispatch import queue_claims
from scheduler.dispatch.facts import (
    AppFacts,
    AssignedResult,
    Candidate,
    LockedWorkunit,
    SiblingResult,
)
from scheduler.dispatch.queue_claims import QueueClaims
from scheduler.dispatch.rules import allotment
from scheduler.dispatch.rules.allotment import Allotted, Claim
from scheduler.dispatch.search import Search, low_water_marks
from scheduler.lifecycle import Target
from scheduler.queues import slots

#: A claim includes up to this many spare workunits, plus one per chosen workunit, because other
#: transactions may hold chosen ones.
MAX_SPARE_WORKUNITS = 48


def claim(
    searches: Sequence[Search], *, apps: Mapping[int, AppFacts], now: datetime
) -> frozenset[int]:
    """Assign each host its chosen results, or spare results if those are locked.

    Returns the ids of the workunits that are no longer available: locked by other transactions, or
    claimed by this call.
    """
    wanted, others = _wanted(searches)
    claims = queue_claims.lock(searches)
    chosen, spare = claims.affordable(wanted, others)
    locked = lock([*chosen, *spare], len(wanted), queue_ids=claims.queue_ids, now=now)
    if locked and (allotted := _allot(searches, locked, apps, now=now)):
        _assign(searches, allotted, claims, apps, now=now)
    is_short = len(locked) < len(wanted)
    return frozenset([*wanted, *spare] if is_short else wanted)


def _assign(
    searches: Sequence[Search],
    allotted: Sequence[Allotted],
    claims: QueueClaims,
    apps: Mapping[int, AppFacts],
    *,
    now: datetime,
) -> None:
    """Send the allotted results, except those of queues that have changed or have no free slot."""
    affordable, result_by_slot = claims.with_slots(allotted)
    assigned = send(searches, affordable, now=now)
    sent = [each for each in affordable if each.result_id in assigned or not _queue_id(each)]
    slots.take({slot: result for slot, result in result_by_slot.items() if result in assigned})
    for number, result_id, assignment in sorted(sent, key=attrgetter("result_id")):
        searches[number].work.assigned.append(assigned[result_id])
        _count_sent(assignment.candidate, searches[number])
    commit(searches, sent, apps, now=now)


def _queue_id(allotted: Allotted) -> int:
    return allotted.assignment.candidate.queue_id


def _count_sent(candidate: Candidate, search: Search) -> None:
    """Count a sent result for `max_new_per_claim` and for the low-water mark of its stream.

    Streams of targets and of queues of the order fifo or lifo have no marks: they are short, or
    their order must be exact.
    """
    if candidate.queue_id:
        search.sent_by_queue[candidate.queue_id] += 1
        if search.queues[candidate.queue_id].order == "priority":
            key = (candidate.app_id, int(Target.QUEUE), candidate.queue_id)
            low_water_marks.count_sent(key)
    elif not candidate.target_kind:
        low_water_marks.count_sent((candidate.app_id, 0, 0))


def _allot(
    searches: Sequence[Search],
    locked: Sequence[LockedWorkunit],
    apps: Mapping[int, AppFacts],
    *,
    now: datetime,
) -> list[Allotted]:
    siblings = {"workunit_ids": [workunit.id for workunit in locked]}
    return allotment.allot(
        [
            Claim(search.host, search.work_requests, search.feasible, search.headroom.total)
            for search in searches
        ],
        locked=locked,
        sibling_results=sql.fetch_into(SiblingResult, "dispatch/read_chosen_results", siblings),
        apps=apps,
        now=now,
    )


def lock(
    workunit_ids: Sequence[int],
    most: int,
    *,
    queue_ids: Sequence[int] | None = None,
    now: datetime,
) -> list[LockedWorkunit]:
    """Lock and return the first `most` of these workunits that are sendable and not locked.

    Workunits in one of `queue_ids` are left out while their queue is being changed; None skips this
    check, for results that are sent again.
    """
    return sql.fetch_into(
        LockedWorkunit,
        "dispatch/lock_chosen_workunits",
        {
            "workunit_ids": list(workunit_ids),
            "most": most,
            "queue_ids": None if queue_ids is None else list(queue_ids),
            "now": now,
        },
    )


def _wanted(searches: Sequence[Search]) -> tuple[list[int], list[int]]:
    """Return the ids of the chosen workunits, and those of the spare workunits.

    Both lists take one id from each host in turn, best first.
    """
    chosen = dict.fromkeys(_interleave([search.chosen_workunits for search in searches]))
    spare = dict.fromkeys(_interleave([search.spare_workunits for search in searches]))
    others = [workunit_id for workunit_id in spare if workunit_id not in chosen]
    return list(chosen), others[: MAX_SPARE_WORKUNITS + len(chosen)]


def _interleave(each: Sequence[Sequence[int]]) -> list[int]:
    return [id_ for id_ in chain.from_iterable(zip_longest(*each)) if id_ is not None]


def send(
    searches: Sequence[Search], allotted: Sequence[Allotted], *, now: datetime
) -> dict[int, AssignedResult]:
    """Send allotted results of locked workunits; return them by id."""
    hosts = [searches[number].host for number, _, _ in allotted]
    assignments = [assignment for _, _, assignment in allotted]
    rows = sql.fetch_into(
        AssignedResult,
        "dispatch/claim_results",
        {
            "result_ids": [result_id for _, result_id, _ in allotted],
            "host_ids": [host.id for host in hosts],
            "account_ids": [host.account_id for host in hosts],
            "app_version_ids": [assignment.version.id for assignment in assignments],
            "flops": [assignment.flops for assignment in assignments],
            "delays": [assignment.delay for assignment in assignments],
            "queue_ids": [assignment.candidate.queue_id for assignment in assignments],
            "queue_versions": [
                searches[each.number].queues[queue_id].version
                if (queue_id := _queue_id(each))
                else 0
                for each in allotted
            ],
            "now": now,
        },
    )
    return {row.result_id: row for row in rows}


def commit(
    searches: Sequence[Search],
    allotted: Sequence[Allotted],
    apps: Mapping[int, AppFacts],
    *,
    now: datetime,
) -> None:
    """Store the host class, app version and replication that a workunit's first result fixes."""
    # The app version id and the host class of each workunit's first result, by workunit id.
    binding: dict[int, tuple[int, int]] = {}
    replicate: set[int] = set()
    for number, _, assignment in allotted:
        workunit_id, app = assignment.candidate.workunit_id, apps[assignment.candidate.app_id]
        if assignment.replicate:
            replicate.add(workunit_id)
        if assignment.replicate or app.hr_type > 0 or app.homogeneous_app_version:
            hr_class = allotment.class_of(app, searches[number].host)
            binding.setdefault(workunit_id, (assignment.version.id, hr_class))
    if not binding:
        return
    sql.execute(
        "dispatch/commit_workunits",
        {
            "workunit_ids": list(binding),
            "app_version_ids": [version_id for version_id, _ in binding.values()],
            "hr_classes": [hr_class for _, hr_class in binding.values()],
            "replicate": [workunit_id in replicate for workunit_id in binding],
            "now": now,
        },
    )
    if replicate:
        wakeups.after_commit("transitioner")
