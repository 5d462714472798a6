"""Claims task lists: each goes to one host as a unit, or not at all.

Theory of operation.  Hosts are offered task lists before single results, except those of queues
above priority group 0 (`assign`), and a host that gets a list gets nothing else in that reply.  A
client that names its queues gets no lists, because lists belong to no queue.  A page of ready lists
is read without locks and judged for one host after the other; a list that is chosen for one host is
not offered to the next one.  Then the chosen lists are locked with SKIP LOCKED, spare ones in place
of those that other transactions hold.  A list is sent only if all workunits of its members could be
locked, and if its members, which are read again under the locks, are exactly those of the offer.
The lock on a list excludes other claims, the locks on the workunits exclude the daemons.

Apps without lists (`App.has_bundles`) cause no statement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from scheduler import sql
from scheduler.config import ProjectConfig
from scheduler.dispatch import claim
from scheduler.dispatch.facts import AppFacts, Candidate, SiblingResult, WorkRequest
from scheduler.dispatch.rules import allotment, bundle_offers, bundle_states, scoring
from scheduler.dispatch.rules.allotment import Allotted
from scheduler.dispatch.rules.bundle_offers import Member, MemberJudge, Offer, ReadList
from scheduler.dispatch.rules.bundle_states import MemberFacts
from scheduler.dispatch.rules.fit import LASTING, RefusalReason, Rules
from scheduler.dispatch.search import Search

#: The number of task lists per app on the first page; each page is four times as long as the one
#: before.
PAGE_SIZE = 32
MAX_PAGES = 4
#: Task lists come before all single results of this priority group, which is that of work without a
#: queue, and after those of higher groups.
PRIORITY_GROUP = 0
#: The number of lists that a host is offered beyond the needed ones, because other transactions may
#: claim some first.
SPARE = 4


@dataclass(slots=True)
class _Seeker:
    """A host that requests work, with the lists that it may receive, best first.

    `needed` is the number of offers that meet its requests.
    """

    number: int
    search: Search
    offers: list[Offer] = field(default_factory=list)
    needed: int = 0

    @property
    def chosen(self) -> list[int]:
        return [offer.bundle_id for offer in self.offers[: self.needed]]

    @property
    def spare(self) -> list[int]:
        return [offer.bundle_id for offer in self.offers[self.needed :]]


class _Allotment(NamedTuple):
    """A locked task list and the host that gets it."""

    seeker: _Seeker
    offer: Offer


def assign(
    searches: Sequence[Search],
    *,
    apps: Mapping[int, AppFacts],
    config: ProjectConfig,
    now: datetime,
) -> frozenset[int]:
    """Assign task lists to the hosts that can compute them.

    Returns the ids of hosts that got none because other transactions hold the lists.
    """
    seekers = [
        _Seeker(number, search)
        for number, search in enumerate(searches)
        if may_get_lists(search, apps)
    ]
    if not seekers:
        return frozenset()
    _find(seekers, apps, config, now=now)
    hopeful = [seeker for seeker in seekers if seeker.needed]
    if not hopeful:
        return frozenset()
    allotted = _checked(_lock(hopeful), apps, now=now)
    if allotted:
        _send(searches, allotted, apps, now=now)
    return frozenset(seeker.search.host.id for seeker in hopeful if not seeker.search.work.assigned)


def may_get_lists(search: Search, apps: Mapping[int, AppFacts]) -> bool:
    """Return whether task lists are offered to the host."""
    return not search.host.taste.active_queues and any(
        apps[app_id].has_bundles for app_id in search.versions
    )


def _find(
    seekers: Sequence[_Seeker],
    apps: Mapping[int, AppFacts],
    config: ProjectConfig,
    *,
    now: datetime,
) -> None:
    """Judge the ready lists, page by page, until each host has one or none is left."""
    app_ids = sorted(
        {
            app_id
            for seeker in seekers
            for app_id in seeker.search.versions
            if apps[app_id].has_bundles
        }
    )
    unserved, offset, taken = list(seekers), 0, set[int]()
    for page_number in range(MAX_PAGES):
        size = PAGE_SIZE << 2 * page_number
        lists = _read(app_ids, seekers, offset=offset, size=size, now=now)
        for seeker in unserved:
            _judge(seeker, lists, taken, apps, config, now=now)
            taken.update(seeker.chosen)
        unserved = [seeker for seeker in unserved if not seeker.needed]
        if not unserved or len(lists) < size:
            return
        offset += size


def _read(
    app_ids: Sequence[int], seekers: Sequence[_Seeker], *, offset: int, size: int, now: datetime
) -> list[ReadList]:
    rows = sql.fetch_rows(
        "dispatch/read_bundles",
        {
            "app_ids": list(app_ids),
            "offset": offset,
            "page": size,
            "host_ids": [seeker.search.host.id for seeker in seekers],
            "account_ids": [seeker.search.host.account_id for seeker in seekers],
            "now": now,
        },
    )
    lists = []
    for bundle_id, members in groupby(rows, key=itemgetter(0)):
        read = tuple(
            Member(
                Candidate._make(columns),
                is_sendable,
                by_hosts or (),
                by_accounts or (),
                expected_seconds,
            )
            for _, _, _, is_sendable, by_hosts, by_accounts, expected_seconds, *columns in members
        )
        lists.append(ReadList(id=bundle_id, members=read))
    return lists


def _judge(
    seeker: _Seeker,
    lists: Iterable[ReadList],
    taken: Collection[int],
    apps: Mapping[int, AppFacts],
    config: ProjectConfig,
    *,
    now: datetime,
) -> None:
    """Choose lists for a host from those that are not taken by hosts before it."""
    search, offers = seeker.search, list[Offer]()
    rules = Rules(
        apps=apps,
        versions=search.versions,
        headroom=search.headroom.copy(),
        today=now.date(),
        daily_quota=config.daily_quota,
        chance_key=config.chance_key,
    )
    judge, left, needed = MemberJudge(search.host, rules), search.headroom.total, 0
    offered: set[int] = set()
    for request in search.work_requests:
        own: list[Offer] = []
        for bundle in lists:
            if left <= 0 or len(own) >= bundle_offers.needed(own, request) + SPARE:
                break
            if bundle.id in taken or bundle.id in offered or not bundle.is_sendable:
                continue
            if (offer := _offer(bundle, judge, request, search, config)) is not None:
                own.append(offer)
                offered.add(bundle.id)
                left -= len(offer.assignments)
        count = bundle_offers.needed(own, request)
        offers[needed:needed] = own[:count]
        offers += own[count:]
        needed += count
    seeker.offers, seeker.needed = offers, needed


def _offer(
    bundle: ReadList,
    judge: MemberJudge,
    request: WorkRequest,
    search: Search,
    config: ProjectConfig,
) -> Offer | None:
    """Return the offer of a list, or None; a refusal is noted in the host's work."""
    first = bundle.members[0].candidate
    if sentence := scoring.why_unwanted(
        first, app=judge.rules.apps[first.app_id], taste=search.host.taste
    ):
        _refuse(search, first, RefusalReason.TASTE, sentence)
        return None
    verdict = bundle_offers.offer(bundle, judge, request, lease_factor=config.bundle_lease_factor)
    if isinstance(verdict, Offer):
        return verdict
    if verdict is not None:
        _refuse(search, first, *verdict)
    return None


def _refuse(search: Search, candidate: Candidate, reason: RefusalReason, sentence: str) -> None:
    search.list_refusals[str(reason)] += 1
    search.list_sentences.setdefault(str(reason), sentence)
    if reason in LASTING:
        search.lasting_in_lists.append((candidate, str(reason), sentence))


def _lock(seekers: Sequence[_Seeker]) -> list[_Allotment]:
    """Lock chosen lists, or spare ones in their place, and allot them to hosts in turn."""
    chosen = [bundle_id for seeker in seekers for bundle_id in seeker.chosen]
    spare = dict.fromkeys(bundle_id for seeker in seekers for bundle_id in seeker.spare)
    ids = [*chosen, *(bundle_id for bundle_id in spare if bundle_id not in chosen)]
    params = {"ids": ids, "most": len(chosen)}
    free = {row[0] for row in sql.fetch_rows("dispatch/lock_ready_bundles", params)}
    allotted = []
    for seeker in seekers:
        left = seeker.needed
        for offer in seeker.offers:
            if left and offer.bundle_id in free:
                free.remove(offer.bundle_id)
                allotted.append(_Allotment(seeker, offer))
                left -= 1
    return allotted


def _checked(
    allotted: Sequence[_Allotment], apps: Mapping[int, AppFacts], *, now: datetime
) -> list[_Allotment]:
    """Lock the workunits of locked lists; return the lists that can still be sent as offered."""
    workunit_ids = [id_ for each in allotted for id_ in each.offer.workunit_ids]
    if not workunit_ids:
        return []
    locked = {row.id: row for row in claim.lock(workunit_ids, len(workunit_ids), now=now)}
    ids = [each.offer.bundle_id for each in allotted]
    members: dict[int, list[MemberFacts]] = {id_: [] for id_ in ids}
    for member in sql.fetch_into(MemberFacts, "dispatch/read_bundle_members", {"bundle_ids": ids}):
        members[member.bundle_id].append(member)
    siblings: dict[int, list[SiblingResult]] = {}
    for sibling in sql.fetch_into(
        SiblingResult, "dispatch/read_chosen_results", {"workunit_ids": workunit_ids}
    ):
        siblings.setdefault(sibling.workunit_id, []).append(sibling)
    return [
        each
        for each in allotted
        if locked.keys() >= set(each.offer.workunit_ids)
        and bundle_states.ready_results(members[each.offer.bundle_id]) == each.offer.result_ids
        and all(
            allotment.may_send(
                assignment,
                bound=locked[assignment.candidate.workunit_id],
                sibling_results=siblings.get(assignment.candidate.workunit_id, ()),
                host=each.seeker.search.host,
                app=apps[assignment.candidate.app_id],
                now=now,
            )
            for assignment in each.offer.assignments
        )
    ]


def _send(
    searches: Sequence[Search],
    allotted: Sequence[_Allotment],
    apps: Mapping[int, AppFacts],
    *,
    now: datetime,
) -> None:
    results = [
        Allotted(each.seeker.number, assignment.candidate.result_id, assignment)
        for each in allotted
        for assignment in each.offer.assignments
    ]
    sent = claim.send(searches, results, now=now)
    for number, result_id, _ in results:
        searches[number].work.assigned.append(sent[result_id])
    sql.execute(
        "dispatch/start_bundles",
        {
            "ids": [each.offer.bundle_id for each in allotted],
            "host_ids": [each.seeker.search.host.id for each in allotted],
            "now": now,
        },
    )
    claim.commit(searches, results, apps, now=now)
