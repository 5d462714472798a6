"""Looks through the unsent results for several hosts at once, page after page.

Each host is judged by itself and in its turn, just as if it had come alone; what one has chosen is
not offered to the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from time import perf_counter

from scheduler.config import ProjectConfig
from scheduler.dispatch import candidates as handout
from scheduler.dispatch.candidates import BEFORE_ALL, Cursor, Lane, LaneKey, Page
from scheduler.dispatch.chosen import Chosen
from scheduler.dispatch.facts import Work
from scheduler.dispatch.rules import selection, trust
from scheduler.dispatch.rules.host_limits import Rooms
from scheduler.dispatch.scan_cursors import HostMarks, LowWater
from scheduler.hosts.facts import AppFacts, Assignment, Candidate, HostFacts, VersionFacts, Wish
from scheduler.lifecycle import Target

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
    files it has; `feasible` is what it may have on each device, best first, and more than it needs;
    `saturated` are devices for which more would miss its deadline (`selection.Choice`).
    """

    work: Work
    host: HostFacts
    wishes: tuple[Wish, ...]
    rooms: Rooms
    versions: Mapping[int, Sequence[VersionFacts]]
    lanes: tuple[Lane, ...]
    near: frozenset[int] = frozenset()
    spare: int = selection.SPARE
    feasible: dict[str, list[Assignment]] = field(default_factory=dict)
    saturated: set[str] = field(default_factory=set)
    found: dict[LaneKey | None, Mapping[int, Candidate]] = field(default_factory=dict)
    open_lanes: dict[LaneKey, Cursor] = field(default_factory=dict)
    seen: dict[LaneKey, Cursor] = field(default_factory=dict)

    @property
    def found_any(self) -> bool:
        """Whether there is something for the host."""
        return any(self.feasible.values())

    @property
    def found_count(self) -> int:
        """How many results the host may have."""
        return sum(map(len, self.feasible.values()))

    @property
    def has_enough(self) -> bool:
        """Whether every device's wish is met, with some to spare."""
        return not any(self._unmet())

    @property
    def is_saturated(self) -> bool:
        """Whether on every device whose wish is not met, more would miss its deadline."""
        return all(wish.device in self.saturated for wish in self._unmet())

    def _unmet(self) -> Iterable[Wish]:
        for wish in self.wishes:
            found = self.feasible.get(wish.device, ())
            most = self.needed(wish)
            if wish.anything and (not most or len(found) < most + self.spare):
                yield wish

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

    A host whose queue is full before is done at the first page that brings nothing.

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


def find_beyond(
    searches: Sequence[Search], *, held: Collection[int], config: ProjectConfig, now: datetime
) -> None:
    """Judge once more what was read already, without the workunits that others hold."""
    chosen = Chosen()
    for search in searches:
        search.found = {
            lane: {i: one for i, one in found.items() if one.workunit_id not in held}
            for lane, found in search.found.items()
        }
        _judge(search, chosen, together=len(searches) > 1, config=config, now=now)


def _look(searches: Sequence[Search], *, config: ProjectConfig, now: datetime) -> None:
    for search in searches:
        search.spare = selection.SPARE if len(searches) == 1 else selection.SPARE_TOGETHER
        search.found, search.feasible, search.seen, search.saturated = {}, {}, {}, set()
        search.work.come_again = False
    looking = [search for search in searches if search.lanes]
    # Before any is judged, nobody knows how long a result takes: a page too short is turned.
    guess = 2 * (len(looking) - 1 + sum(search.guess for search in looking))
    size = max(config.candidates_per_page, guess)
    chosen = Chosen()
    for turned in range(MOST_PAGES):
        if not looking:
            return
        _read(looking, size << 2 * turned, is_first=not turned, now=now)
        unfinished = []
        for search in looking:
            found_before = search.found_count
            _judge(search, chosen, together=len(searches) > 1, config=config, now=now)
            if not search.found_any:
                _host_marks.keep(search.host.id, search.seen, now=now)
            # A saturated host gets something: only a page that helped is worth a longer one.
            is_stuck = search.is_saturated and search.found_count <= found_before
            if search.open_lanes and not (search.has_enough or is_stuck):
                unfinished.append(search)
        looking = unfinished
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


def _turn(search: Search, read: Mapping[tuple[LaneKey, Cursor], Page], near_ones: Page) -> None:
    """Add to what a host found what the pages of its lanes hold for it, and go on behind them."""
    if search.near:
        _add(search, None, near_ones.for_host(search.host))
    for lane in search.lanes:
        if (after := search.open_lanes.pop(lane.key, None)) is None:
            continue
        page = read[lane.key, after]
        runs_here = lane.app.id in search.versions
        found = page.for_host(search.host)
        _add(search, lane.key, found if runs_here else dict(islice(found.items(), FEW)))
        if page.last is not None:
            search.seen[lane.key] = page.last
            if page.full and runs_here:
                search.open_lanes[lane.key] = page.last


def _add(search: Search, lane: LaneKey | None, found: Mapping[int, Candidate]) -> None:
    """Add candidates of a lane, or of none; what the host has the files of is marked."""
    if search.near:
        found = {
            i: one._replace(is_near=True) if one.workunit_id in search.near else one
            for i, one in found.items()
            if lane is not None or one.workunit_id in search.near
        }
    known = search.found.get(lane)
    # A page is many hosts': it is never changed.
    search.found[lane] = {**known, **found} if known else found


def _judge(
    search: Search, chosen: Chosen, *, together: bool, config: ProjectConfig, now: datetime
) -> None:
    """Judge what a host found and nobody else chose: as much as one alone would, then all."""
    apps = search.work.apps
    rules = selection.Rules(
        apps=apps,
        versions=search.versions,
        rooms=search.rooms,
        today=now.date(),
        daily_quota=config.daily_quota,
        chance_key=config.chance_key,
        together=together,
    )
    draw = trust.draw(config.chance_key, search.host.id, int(now.timestamp() * 1000))
    view = max(config.candidates_per_page, 4 * search.guess)
    _judge_some(search, chosen.left_for(search.host, search.found, apps, view), rules, draw)
    if not search.has_enough and any(len(found) > view for found in search.found.values()):
        _judge_some(search, chosen.left_for(search.host, search.found, apps, None), rules, draw)
    chosen.note(search.host, [one.candidate for one in search.chosen])


def _judge_some(
    search: Search, candidates: Iterable[Candidate], rules: selection.Rules, draw: float
) -> None:
    work, host = search.work, search.host
    rules = replace(rules, rooms=search.rooms.copy())
    ordered, disliked = selection.order(candidates, host=host, rules=rules, draw=draw)
    choice = selection.choose(ordered, host=host, wishes=search.wishes, rules=rules)
    for candidate, why in disliked:
        choice.refuse(candidate, selection.Refusal.TASTE, why)
    search.feasible, search.saturated = choice.feasible, choice.saturated
    work.refused = Counter({str(reason): n for reason, n in choice.refused.items()})
    work.sentences = {str(reason): text for reason, text in choice.example.items()}
    work.lasting = [(c, str(reason), text) for c, reason, text in choice.lasting]
