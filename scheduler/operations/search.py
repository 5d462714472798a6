"""Looks through the unsent results for several hosts at once, page after page.

Each host is judged by itself and in its turn, just as if it had come alone; what one has chosen is
not offered to the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import perf_counter

from scheduler.config import ProjectConfig
from scheduler.facts.handout import Work
from scheduler.facts.hosts import AppFacts, Assignment, Candidate, HostFacts, VersionFacts, Wish
from scheduler.lifecycle import Target
from scheduler.operations.marks import HostMarks, LowWater
from scheduler.policy import selection, trust
from scheduler.policy.limits import Rooms
from scheduler.queries import handout
from scheduler.queries.handout import BEFORE_ALL, Cursor, Lane, LaneKey, Offered, Page

#: How many pages, each four times as long as the last, one RPC judges before it says: come again.
MOST_PAGES = 6
#: So few are read of an app of which nothing runs on the host: to be refused, and so explained.
FEW = 8
#: So many workunits are looked at because a host has their input files.
MOST_NEAR = 200
#: So many seconds asked for are taken for one result, before any is judged.
GUESS = 3600.0

_host_marks = HostMarks()
low_water = LowWater()


@dataclass(slots=True, kw_only=True)
class Search:
    """What one host looks for, and what it has found so far.

    `lanes` are the rows of work in which there may be something for it, `near` the workunits whose
    files it has; `feasible` is what it may have on each device, best first, and more than it needs.
    """

    work: Work
    host: HostFacts
    wishes: tuple[Wish, ...]
    rooms: Rooms
    versions: Mapping[int, Sequence[VersionFacts]]
    lanes: tuple[Lane, ...]
    near: frozenset[int] = frozenset()
    feasible: dict[str, list[Assignment]] = field(default_factory=dict)
    found: dict[int, Candidate] = field(default_factory=dict)
    open_lanes: dict[LaneKey, Cursor] = field(default_factory=dict)
    seen: dict[LaneKey, Cursor] = field(default_factory=dict)

    @property
    def found_any(self) -> bool:
        """Whether there is something for the host."""
        return any(self.feasible.values())

    @property
    def has_enough(self) -> bool:
        """Whether every device's wish is met, with some to spare."""
        for wish in self.wishes:
            found = self.feasible.get(wish.device, ())
            most = self.needed(wish)
            if wish.anything and (not most or len(found) < most + selection.SPARE):
                return False
        return True

    def needed(self, wish: Wish) -> int:
        """How many of what was found meet a wish."""
        return selection.needed(self.feasible.get(wish.device, ()), wish, room=self.rooms.total)

    @property
    def chosen(self) -> Iterable[Assignment]:
        """What the host would take, if nobody else does."""
        for wish in self.wishes:
            yield from self.feasible.get(wish.device, ())[: self.needed(wish)]

    @property
    def chosen_workunits(self) -> list[int]:
        """The workunits of what the host would take."""
        return [one.candidate.workunit_id for one in self.chosen]

    @property
    def spare_workunits(self) -> list[int]:
        """The workunits of what it might have instead."""
        return [
            one.candidate.workunit_id
            for wish in self.wishes
            for one in self.feasible.get(wish.device, ())[self.needed(wish) :]
        ]

    @property
    def guess(self) -> int:
        """How many results the host may need."""
        return min(self.rooms.total, sum(int(wish.seconds / GUESS) for wish in self.wishes))


def lanes_for(
    apps: Mapping[int, AppFacts],
    host: HostFacts,
    versions: Mapping[int, object],
    *,
    any_targeted: bool,
) -> tuple[Lane, ...]:
    """The rows of work in which there may be something for this host."""
    mine = [(Target.EVERYBODY, 0)]
    if any_targeted:
        mine += [(Target.HOST, host.id), (Target.ACCOUNT, host.account_id)]
        mine += [(Target.TEAM, host.team_id)] if host.team_id is not None else []
    return tuple(
        Lane(app=app, target_kind=int(kind), target_id=target_id)
        for app in apps.values()
        for kind, target_id in (mine if app.id in versions else mine[:1])
    )


def near(apps: Mapping[int, AppFacts], host: HostFacts) -> frozenset[int]:
    """Workunits with work for this host that use files which it has, of the apps that want so."""
    local = [app.id for app in apps.values() if app.locality]
    if not local or not host.near_files:
        return frozenset()
    return frozenset(handout.workunits_near(host.near_files, local, most=MOST_NEAR))


def find(searches: Sequence[Search], *, config: ProjectConfig, now: datetime) -> None:
    """Judge page after page of candidates until each host has enough, or there are no more.

    Who began at a mark and found nothing looks from the beginning.
    """
    marked = []
    for search in searches:
        own = _host_marks.of(search.host.id, now=now)
        begin = {lane.key: low_water.of(lane.key, now=now) for lane in search.lanes}
        search.open_lanes = begin | {key: own[key] for key in begin.keys() & own.keys()}
        if any(cursor != BEFORE_ALL for cursor in search.open_lanes.values()):
            marked.append(search)
    _look(searches, config=config, now=now)
    if again := [search for search in marked if not search.found_any]:
        for search in again:
            search.open_lanes = {lane.key: BEFORE_ALL for lane in search.lanes}
        _look(again, config=config, now=now)


def _look(searches: Sequence[Search], *, config: ProjectConfig, now: datetime) -> None:
    for search in searches:
        search.found, search.feasible, search.seen = {}, {}, {}
        search.work.come_again = False
    looking = [search for search in searches if search.lanes]
    # Before any is judged, nobody knows how long a result takes: a page too short is turned.
    guess = 2 * (len(looking) - 1 + sum(search.guess for search in looking))
    size = max(config.candidates_per_page, guess)
    chosen = _Chosen()
    for turned in range(MOST_PAGES):
        if not looking:
            return
        _read(looking, size << 2 * turned, is_first=not turned, now=now)
        for search in looking:
            _judge(search, chosen, together=len(searches) > 1, config=config, now=now)
            if not search.found_any:
                _host_marks.keep(search.host.id, search.seen, now=now)
        looking = [search for search in looking if search.open_lanes and not search.has_enough]
    for search in looking:
        search.work.come_again = not search.found_any


def _read(looking: Sequence[Search], size: int, *, is_first: bool, now: datetime) -> None:
    """Read the next page of every lane in which anybody looks, once for all of them."""
    wanted: dict[tuple[LaneKey, Cursor], Lane] = {}
    for search in looking:
        for lane in search.lanes:
            if (after := search.open_lanes.get(lane.key)) is not None:
                page = size if lane.app.id in search.versions else FEW
                known = wanted.get((lane.key, after))
                if known is None or known.page < page:
                    wanted[lane.key, after] = replace(lane, after=after, page=page)
    began = perf_counter()
    pages, near_ones = handout.candidates(
        list(wanted.values()),
        hosts=[search.host for search in looking],
        near=frozenset().union(*(search.near for search in looking)) if is_first else (),
        now=now,
    )
    seconds = perf_counter() - began
    read = dict(zip(wanted, pages, strict=True))
    for (key, after), one in read.items():
        low_water.saw(key, after=after, first=one.first, seconds=seconds, now=now)
    for search in looking:
        _turn(search, read, near_ones)


def _turn(
    search: Search, read: Mapping[tuple[LaneKey, Cursor], Page], near_ones: Iterable[Offered]
) -> None:
    """Add to what a host found what the pages of its lanes hold for it, and go on behind them."""
    offered: list[Offered] = [one for one in near_ones if one.candidate.workunit_id in search.near]
    for lane in search.lanes:
        if (after := search.open_lanes.pop(lane.key, None)) is None:
            continue
        page = read[lane.key, after]
        runs_here = lane.app.id in search.versions
        offered += page.offered if runs_here else page.offered[:FEW]
        if page.last is not None:
            search.seen[lane.key] = page.last
            if page.full and runs_here:
                search.open_lanes[lane.key] = page.last
    offered.sort(key=_place)
    for one in offered:
        if one.is_for(search.host):
            candidate = one.candidate
            if candidate.workunit_id in search.near:
                candidate = candidate._replace(is_near=True)
            search.found[candidate.result_id] = candidate


def _place(one: Offered) -> tuple[int, int, int]:
    return -one.candidate.priority, one.candidate.workunit_id, one.candidate.result_id


def _judge(
    search: Search, chosen: _Chosen, *, together: bool, config: ProjectConfig, now: datetime
) -> None:
    work, host = search.work, search.host
    rules = selection.Rules(
        apps=work.apps,
        versions=search.versions,
        rooms=search.rooms.copy(),
        today=now.date(),
        daily_quota=config.daily_quota,
        chance_key=config.chance_key,
        together=together,
    )
    draw = trust.draw(config.chance_key, host.id, int(now.timestamp() * 1000))
    free = chosen.left_for(search)
    ordered, disliked = selection.order(free, host=host, rules=rules, draw=draw)
    choice = selection.choose(ordered, host=host, wishes=search.wishes, rules=rules)
    for candidate, why in disliked:
        choice.refuse(candidate, selection.Refusal.TASTE, why)
    search.feasible = choice.feasible
    work.refused = Counter({str(reason): n for reason, n in choice.refused.items()})
    work.sentences = {str(reason): text for reason, text in choice.example.items()}
    work.lasting = [(c, str(reason), text) for c, reason, text in choice.lasting]
    chosen.note(search)


class _Chosen:
    """What hosts of the batch have chosen already: it is not offered to those after them."""

    def __init__(self) -> None:
        self._hosts: dict[int, int] = {}
        self._accounts: dict[int, dict[int, int]] = {}
        self._results: dict[int, list[Candidate]] = {}

    def left_for(self, search: Search) -> list[Candidate]:
        """What a host found and nobody else chose, nor, of its workunit, its own account."""
        if not self._hosts:
            return list(search.found.values())
        return [one for one in search.found.values() if self._is_left(one, search)]

    def _is_left(self, candidate: Candidate, search: Search) -> bool:
        host = search.host
        if self._hosts.get(candidate.result_id, host.id) != host.id:
            return False
        others = self._accounts.get(candidate.workunit_id)
        if not others or search.work.apps[candidate.app_id].one_result_per != "account":
            return True
        return all(
            host_id == host.id or account_id != host.account_id
            for host_id, account_id in others.items()
        )

    def note(self, search: Search) -> None:
        """Note what a host has chosen by now, instead of what it had chosen before."""
        host = search.host
        for before in self._results.get(host.id, ()):
            self._hosts.pop(before.result_id, None)
            self._accounts[before.workunit_id].pop(host.id, None)
        chosen = self._results[host.id] = [one.candidate for one in search.chosen]
        for candidate in chosen:
            self._hosts[candidate.result_id] = host.id
            self._accounts.setdefault(candidate.workunit_id, {})[host.id] = host.account_id
