"""Gives results to a host: read, judge, lock, claim; look again if others won."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from time import sleep

from scheduler import sql, wakeups
from scheduler.config import ProjectConfig
from scheduler.facts.handout import Given, Work
from scheduler.facts.hosts import AppFacts, Assignment, Candidate, HostFacts, VersionFacts, Wish
from scheduler.lifecycle import Target
from scheduler.operations import broadcasts, refusals
from scheduler.policy import limits, lost, selection, trust
from scheduler.policy.limits import Rooms
from scheduler.queries import handout

#: How long, in seconds, to wait before each further look when others hold all candidates: 200 ms in
#: all.  "No work" is said only when it is true; a client told so stays away for 10 minutes or more.
LOOKS = (0.0, 0.005, 0.015, 0.03, 0.05, 0.1)
#: How many pages, each four times as long as the last, one RPC judges before it says: come again.
MOST_PAGES = 6
#: So few are read of an app of which nothing runs on the host: to be refused, and so explained.
FEW = 8
#: So many workunits are looked at because the host has their input files.
MOST_NEAR = 200
#: From so many seconds on a wish is a queue to be filled, not a processor to be kept busy.
MUCH = 3600.0


def review_holdings(
    *, host_id: int, listed: Sequence[str], reported: Sequence[str]
) -> lost.Holdings:
    """What to tell the client of the results it lists, and which of the host's results it lost."""
    known = handout.held_results(host_id=host_id, names=listed)
    return lost.review(known, host_id=host_id, listed=set(listed), reported=set(reported))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What a client asks for, and what must be known of it beside the host's facts.

    `wishes` are its devices', GPUs first.  `any_sensor` and `any_broadcast` say whether the project
    has work of these kinds at all.
    """

    wishes: tuple[Wish, ...]
    platforms: Sequence[str]
    client_version: int
    any_sensor: bool = False
    any_broadcast: bool = False

    @property
    def anything(self) -> bool:
        """Whether the client asked for work."""
        return any(wish.anything for wish in self.wishes)


@dataclass(slots=True, kw_only=True)
class _Search:
    """What stays the same while candidates are looked through for one host."""

    work: Work
    host: HostFacts
    wishes: tuple[Wish, ...]
    rooms: Rooms
    versions: Mapping[int, Sequence[VersionFacts]]
    lanes: tuple[handout.Lane, ...]
    near: Sequence[int]
    config: ProjectConfig
    now: datetime
    feasible: dict[str, list[Assignment]] = field(default_factory=dict)

    @property
    def has_enough(self) -> bool:
        """Whether every device's wish is met, with some to spare."""
        for wish in self.wishes:
            found = self.feasible.get(wish.device, ())
            most = selection.needed(found, wish, room=self.rooms.total)
            if wish.anything and (not most or len(found) < most + selection.SPARE):
                return False
        return True


def give(
    host: HostFacts,
    asking: Asking,
    *,
    holdings: lost.Holdings,
    config: ProjectConfig,
    now: datetime,
) -> Work:
    """Give the host what it asks for, as far as there is and it may have; lost results come first.

    Inside the transaction of an RPC, after its reports are settled.  Runs a constant number of
    statements, however much is given; only contention or misfits make it look again, a bounded
    number of times.
    """
    work = Work(asked=asking.anything)
    if not (work.asked or asking.any_sensor):
        return work
    offer = handout.offer_for(
        host_id=host.id,
        machine=host.machine,
        platforms=asking.platforms,
        client_version=asking.client_version,
    )
    work.apps, work.versions = dict(offer.apps), offer.versions
    if work.asked:
        _settle_lost(work, host, holdings, now=now)
    if not work.resent:
        _give_new(work, host, asking, config, now=now)
    if work.sent:
        work.inputs = handout.input_files(work.sent)
        work.version_files = handout.version_files(work.sent)
    if work.lasting:
        refusals.remember(work, host, now=now)
    return work


def _settle_lost(work: Work, host: HostFacts, holdings: lost.Holdings, *, now: datetime) -> None:
    if holdings.resend:
        # Nobody sends a result whose workunit somebody is just now deciding about.
        chosen = [
            (result.workunit_id, result.app_version_id, _class_of(work.apps, result.app_id, host))
            for result in holdings.resend
        ]
        locked = _lock(chosen, len(chosen), now=now)
        lost_ones = [result for result in holdings.resend if result.workunit_id in locked]
        rows = sql.fetch_into(
            Given,
            "resend_results",
            {
                "result_ids": [result.id for result in lost_ones],
                "deadlines": [lost.new_deadline(r, now=now) for r in lost_ones],
                "host_id": host.id,
                "now": now,
            },
        )
        work.resent = [given for given in rows if given.app_version_id in work.versions]
    if holdings.give_up:
        sql.execute(
            "expire_lost_results",
            {"result_ids": [result.id for result in holdings.give_up], "now": now},
        )
        work.given_up = [result.name for result in holdings.give_up]


def _class_of(apps: Mapping[int, AppFacts], app_id: int, host: HostFacts) -> int:
    app = apps.get(app_id)
    return host.hr_classes.get(app.hr_type, 0) if app is not None and app.hr_type else 0


def _give_new(
    work: Work, host: HostFacts, asking: Asking, config: ProjectConfig, *, now: datetime
) -> None:
    facts = {version_id: version.facts for version_id, version in work.versions.items()}
    rooms = limits.rooms_for(host, config, apps=work.apps.values(), versions=facts)
    if rooms.total == 0:
        work.refused[selection.Refusal.IN_PROGRESS_LIMIT] += 1
        work.sentences[selection.Refusal.IN_PROGRESS_LIMIT] = (
            "This computer has reached a limit on tasks in progress"
        )
        return
    if asking.any_broadcast:
        broadcasts.make(work, host, now=now)
    by_app: dict[int, list[VersionFacts]] = {}
    for version in facts.values():
        by_app.setdefault(version.app_id, []).append(version)
    search = _Search(
        work=work,
        host=host,
        wishes=_wishes(asking),
        rooms=rooms,
        versions=by_app,
        lanes=_lanes(work.apps, host, by_app),
        near=_near(work.apps, host),
        config=config,
        now=now,
    )
    if not search.lanes:
        return
    for pause in LOOKS:
        if pause:
            sleep(pause)
        _find_feasible(search)
        if not any(search.feasible.values()):
            return
        _claim_all(search)
        if work.given:
            work.come_again = False
            return
        # There was work when we looked, and others held it: it may still be had.
        work.come_again = True


def _wishes(asking: Asking) -> tuple[Wish, ...]:
    wishes = tuple(wish for wish in asking.wishes if wish.anything)
    return (*wishes, Wish(device=selection.SENSOR)) if asking.any_sensor else wishes


def _lanes(
    apps: Mapping[int, AppFacts], host: HostFacts, versions: Mapping[int, object]
) -> tuple[handout.Lane, ...]:
    """The rows of work in which there may be something for this host."""
    mine = [(Target.EVERYBODY, 0), (Target.HOST, host.id), (Target.ACCOUNT, host.account_id)]
    if host.team_id is not None:
        mine.append((Target.TEAM, host.team_id))
    return tuple(
        handout.Lane(app=app, target_kind=int(kind), target_id=target_id)
        for app in apps.values()
        for kind, target_id in (mine if app.id in versions else mine[:1])
    )


def _near(apps: Mapping[int, AppFacts], host: HostFacts) -> list[int]:
    local = [app.id for app in apps.values() if app.locality]
    if not local or not host.near_files:
        return []
    return handout.workunits_near(host.near_files, local, most=MOST_NEAR)


def _find_feasible(search: _Search) -> None:
    """Judge page after page of candidates until they hold enough for this host.

    An account whose own workunits fill the head of a lane begins where it last found something;
    finding nothing from there on, it looks from the beginning: "no work" is said only when it is
    true.
    """
    marks = _marks.of(search.host.id, now=search.now)
    _look(search, marks)
    if marks and not any(search.feasible.values()):
        _look(search, {})


Cursors = Mapping[tuple[int, int], tuple[int, int]]


def _look(search: _Search, after: Cursors) -> None:
    work, host, config = search.work, search.host, search.config
    cursors = dict(after)
    lanes = search.lanes
    found: dict[int, Candidate] = {}
    work.come_again = False
    # One who wants a whole queue filled begins with the second page's length.
    first = int(any(wish.seconds > MUCH for wish in search.wishes))
    for turned in range(first, MOST_PAGES):
        size = config.candidates_per_page << 2 * turned
        page = handout.candidates(
            host,
            [
                replace(
                    lane,
                    after=cursors.get(lane.key, handout.BEFORE_ALL),
                    page=size if lane.app.id in search.versions else FEW,
                )
                for lane in lanes
            ],
            near=search.near if turned == first else (),
            now=search.now,
        )
        # What is near comes once more along its lane: near it counts for more.
        found |= {c.result_id: c for c in page.candidates if c.is_near or c.result_id not in found}
        _judge(search, found.values())
        if not any(search.feasible.values()):
            _marks.keep(host.id, page.cursors, now=search.now)
        cursors |= page.cursors
        lanes = tuple(
            lane for lane in lanes if lane.key in page.full and lane.app.id in search.versions
        )
        if not lanes or search.has_enough:
            return
    work.come_again = not any(search.feasible.values())


def _judge(search: _Search, candidates: Iterable[Candidate]) -> None:
    work, host, config = search.work, search.host, search.config
    rules = selection.Rules(
        apps=work.apps,
        versions=search.versions,
        rooms=search.rooms.copy(),
        today=search.now.date(),
        daily_quota=config.daily_quota,
        chance_key=config.chance_key,
    )
    draw = trust.draw(config.chance_key, host.id, int(search.now.timestamp() * 1000))
    ordered, disliked = selection.order(candidates, host=host, rules=rules, draw=draw)
    choice = selection.choose(ordered, host=host, wishes=search.wishes, rules=rules)
    for candidate, why in disliked:
        choice.refuse(candidate, selection.Refusal.TASTE, why)
    search.feasible = choice.feasible
    work.refused = Counter({str(reason): n for reason, n in choice.refused.items()})
    work.sentences = {str(reason): text for reason, text in choice.example.items()}
    work.lasting = [(c, str(reason), text) for c, reason, text in choice.lasting]


class _Marks:
    """Up to where hosts found nothing in each lane: a short memory of this process.

    Only a host that had to turn pages in vain is remembered.  Forgetting is harmless, and
    necessary: work of a higher priority may have come before the mark.
    """

    LIFETIME = timedelta(seconds=10)
    MOST = 10_000

    def __init__(self) -> None:
        self._cursors: dict[int, tuple[datetime, Cursors]] = {}

    def of(self, host_id: int, *, now: datetime) -> Cursors:
        kept_at, cursors = self._cursors.get(host_id, (now, {}))
        if abs(now - kept_at) > self.LIFETIME:
            del self._cursors[host_id]
            return {}
        return cursors

    def keep(self, host_id: int, cursors: Cursors, *, now: datetime) -> None:
        if len(self._cursors) >= self.MOST:
            self._cursors.clear()
        self._cursors[host_id] = (now, dict(cursors))


_marks = _Marks()


def _claim_all(search: _Search) -> None:
    """Take what each device needs; only a host with GPUs asks for more than one."""
    room = search.rooms.total
    for wish in search.wishes:
        found = search.feasible.get(wish.device, [])
        most = selection.needed(found, wish, room=room)
        if most:
            given = _claim(search, found, most)
            search.work.given += given
            room -= len(given)


def _claim(search: _Search, feasible: Sequence[Assignment], most: int) -> list[Given]:
    """Take up to `most` of the feasible ones, in their order, passing over what others hold."""
    host, work, now = search.host, search.work, search.now
    chosen = [
        (a.candidate.workunit_id, a.version.id, _class_of(work.apps, a.candidate.app_id, host))
        for a in feasible
    ]
    locked = _lock(chosen, most, now=now)
    taken = [a for a in feasible if a.candidate.workunit_id in locked]
    if not taken:
        return []
    given = sql.fetch_into(
        Given,
        "claim_results",
        {
            "workunit_ids": [a.candidate.workunit_id for a in taken],
            "app_version_ids": [a.version.id for a in taken],
            "flops": [a.flops for a in taken],
            "delays": [a.delay for a in taken],
            "host_id": host.id,
            "account_id": host.account_id,
            "team_id": host.team_id or 0,
            "now": now,
        },
    )
    got = {one.workunit_id for one in given}
    binding = [
        a
        for a in taken
        if a.candidate.workunit_id in got
        and (a.replicate or _is_bound(work.apps[a.candidate.app_id]))
    ]
    if binding:
        sql.execute(
            "commit_workunits",
            {
                "workunit_ids": [a.candidate.workunit_id for a in binding],
                "app_version_ids": [a.version.id for a in binding],
                "hr_classes": [_class_of(work.apps, a.candidate.app_id, host) for a in binding],
                "replicate": [a.replicate for a in binding],
                "now": now,
            },
        )
        if any(a.replicate for a in binding):
            wakeups.after_commit("transitioner")
    return given


def _is_bound(app: AppFacts) -> bool:
    return app.hr_type > 0 or app.homogeneous_app_version


def _lock(
    workunits: Sequence[tuple[int, int | None, int]], most: int, *, now: datetime
) -> set[int]:
    """Lock up to `most` of (workunit, app version, class of hosts), passing over others' locks."""
    rows = sql.fetch(
        "lock_chosen_workunits",
        {
            "workunit_ids": [workunit_id for workunit_id, _version, _class in workunits],
            "app_version_ids": [version_id for _workunit, version_id, _class in workunits],
            "hr_classes": [hr_class for _workunit, _version, hr_class in workunits],
            "most": most,
            "now": now,
        },
    )
    return {row["id"] for row in rows}
