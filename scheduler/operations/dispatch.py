"""Gives results to a host: read, judge, lock, claim; look again if others won."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from time import sleep

from scheduler import sql
from scheduler.config import ProjectConfig
from scheduler.facts.handout import Given, Version, Work
from scheduler.facts.hosts import AppFacts, Assignment, Candidate, HostFacts, VersionFacts, Wish
from scheduler.policy import limits, lost, selection
from scheduler.queries import handout

#: How long, in seconds, to wait before each further look when others hold all candidates: 200 ms in
#: all.  "No work" is said only when it is true; a client told so stays away for 10 minutes or more.
LOOKS = (0.0, 0.005, 0.015, 0.03, 0.05, 0.1)
#: How many pages, each four times as long as the last, one RPC judges before it says: come again.
MOST_PAGES = 6
#: So many more are found than are needed, if there are: others may be faster with some of them.
SPARE = 12
#: From so many seconds on a wish is a queue to be filled, not a processor to be kept busy.
MUCH = 3600.0


def review_holdings(
    *, host_id: int, listed: Sequence[str], reported: Sequence[str]
) -> lost.Holdings:
    """What to tell the client of the results it lists, and which of the host's results it lost."""
    known = handout.held_results(host_id=host_id, names=listed)
    return lost.review(known, host_id=host_id, listed=set(listed), reported=set(reported))


def give(
    host: HostFacts,
    *,
    wish: Wish,
    platforms: Sequence[str],
    client_version: int,
    holdings: lost.Holdings,
    config: ProjectConfig,
    now: datetime,
) -> Work:
    """Give the host what it asks for, as far as there is and it may have; lost results come first.

    Inside the transaction of an RPC, after its reports are settled.  Runs a constant number of
    statements, however much is given; only contention or misfits make it look again, a bounded
    number of times.
    """
    work = Work(asked=wish.anything)
    if not wish.anything:
        return work
    work.versions = handout.versions_for(
        host_id=host.id, platforms=platforms, client_version=client_version
    )
    _settle_lost(work, host, holdings, now=now)
    if not work.resent:
        _give_new(work, host, wish, config, now=now)
    if work.sent:
        work.inputs = handout.input_files(work.sent)
        work.version_files = handout.version_files(work.sent)
    return work


def _settle_lost(work: Work, host: HostFacts, holdings: lost.Holdings, *, now: datetime) -> None:
    if holdings.resend:
        # Nobody sends a result whose workunit somebody is just now deciding about.
        pairs = [(result.workunit_id, result.app_version_id) for result in holdings.resend]
        locked = _lock(pairs, len(pairs), hr_class=host.hr_class, now=now)
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


def _give_new(
    work: Work, host: HostFacts, wish: Wish, config: ProjectConfig, *, now: datetime
) -> None:
    apps = {
        version.app.id: version.app
        for version in work.versions.values()
        if not version.facts.deprecated
    }
    room = limits.room_for(host, config)
    if room == 0:
        work.refused[selection.Refusal.IN_PROGRESS_LIMIT] += 1
        work.sentences[selection.Refusal.IN_PROGRESS_LIMIT] = (
            "This computer has reached a limit on tasks in progress"
        )
        return
    if not apps:
        return
    for pause in LOOKS:
        if pause:
            sleep(pause)
        feasible = _find_feasible(work, host, wish, apps, config, room=room, now=now)
        if not feasible:
            return
        most = selection.needed(feasible, wish, room=room)
        work.given = _claim(work, host, feasible, most, now=now)
        if work.given:
            work.come_again = False
            return
        # There was work when we looked, and others held it: it may still be had.
        work.come_again = True


def _find_feasible(
    work: Work,
    host: HostFacts,
    wish: Wish,
    apps: dict[int, AppFacts],
    config: ProjectConfig,
    *,
    room: int,
    now: datetime,
) -> list[Assignment]:
    """Judge page after page of candidates until they hold enough for this host.

    An account whose own workunits fill the head of a lane begins where it last found something;
    finding nothing from there on, it looks from the beginning: "no work" is said only when it is
    true.
    """
    marks = _marks.of(host.account_id, now=now)
    feasible = _look(work, host, wish, apps, config, marks, room=room, now=now)
    if not feasible and marks:
        feasible = _look(work, host, wish, apps, config, {}, room=room, now=now)
    return feasible


def _look(  # noqa: PLR0913  the facts of one look
    work: Work,
    host: HostFacts,
    wish: Wish,
    apps: dict[int, AppFacts],
    config: ProjectConfig,
    after: Mapping[int, tuple[int, int]],
    *,
    room: int,
    now: datetime,
) -> list[Assignment]:
    by_app = _by_app(work.versions.values())
    names = {
        version.app.id: version.user_friendly_name or version.app.name
        for version in work.versions.values()
    }
    rooms = limits.room_by_app(host, apps.values())
    lanes = dict(apps)
    after = dict(after)
    found: list[Candidate] = []
    choice = selection.Choice()
    work.come_again = False
    # One who wants a whole queue filled begins with the second page's length.
    first = int(wish.seconds > MUCH)
    for turned in range(first, MOST_PAGES):
        size = config.candidates_per_page << 2 * turned
        page = handout.candidates(host, lanes.values(), after=after, page=size, now=now)
        found += page.candidates
        choice = selection.choose(
            found, host=host, wish=wish, versions=by_app, names=names, rooms=rooms
        )
        work.refused = Counter({str(reason): n for reason, n in choice.refused.items()})
        work.sentences = {str(reason): text for reason, text in choice.example.items()}
        if not choice.feasible:
            _marks.keep(host.account_id, page.cursors, now=now)
        after |= page.cursors
        lanes = {app_id: app for app_id, app in lanes.items() if app_id in page.full}
        most = selection.needed(choice.feasible, wish, room=room)
        if not lanes or (most and len(choice.feasible) >= most + SPARE):
            return choice.feasible
    work.come_again = not choice.feasible
    return choice.feasible


class _Marks:
    """Up to where accounts found nothing in each lane: a short memory of this process.

    Only an account that had to turn pages in vain is remembered.  Forgetting is harmless, and
    necessary: work of a higher priority may have come before the mark.
    """

    LIFETIME = timedelta(seconds=10)
    MOST = 10_000

    def __init__(self) -> None:
        self._cursors: dict[int, tuple[datetime, Mapping[int, tuple[int, int]]]] = {}

    def of(self, account_id: int, *, now: datetime) -> Mapping[int, tuple[int, int]]:
        kept_at, cursors = self._cursors.get(account_id, (now, {}))
        if abs(now - kept_at) > self.LIFETIME:
            del self._cursors[account_id]
            return {}
        return cursors

    def keep(
        self, account_id: int, cursors: Mapping[int, tuple[int, int]], *, now: datetime
    ) -> None:
        if len(self._cursors) >= self.MOST:
            self._cursors.clear()
        self._cursors[account_id] = (now, dict(cursors))


_marks = _Marks()


def _by_app(versions: Iterable[Version]) -> dict[int, list[VersionFacts]]:
    by_app: dict[int, list[VersionFacts]] = {}
    for version in versions:
        by_app.setdefault(version.app.id, []).append(version.facts)
    return by_app


def _claim(
    work: Work, host: HostFacts, feasible: Sequence[Assignment], most: int, *, now: datetime
) -> list[Given]:
    """Take up to `most` of the feasible ones, in their order, passing over what others hold."""
    pairs = [(a.candidate.workunit_id, a.version.id) for a in feasible]
    locked = _lock(pairs, most, hr_class=host.hr_class, now=now)
    taken = [a for a in feasible if a.candidate.workunit_id in locked]
    if not taken:
        return []
    chosen = {
        "workunit_ids": [a.candidate.workunit_id for a in taken],
        "app_version_ids": [a.version.id for a in taken],
    }
    given = sql.fetch_into(
        Given,
        "claim_results",
        chosen
        | {
            "flops": [a.flops for a in taken],
            "host_id": host.id,
            "account_id": host.account_id,
            "now": now,
        },
    )
    if given and any(_is_bound(work.versions[a.version.id]) for a in taken):
        sql.execute("commit_workunit_classes", chosen | {"hr_class": host.hr_class})
    return given


def _is_bound(version: Version) -> bool:
    return version.app.hr_type > 0 or version.app.homogeneous_app_version


def _lock(
    workunits: Sequence[tuple[int, int | None]], most: int, *, hr_class: int, now: datetime
) -> set[int]:
    """Lock up to `most` of (workunit id, app version id) pairs, passing over what others hold."""
    rows = sql.fetch(
        "lock_chosen_workunits",
        {
            "workunit_ids": [workunit_id for workunit_id, _version in workunits],
            "app_version_ids": [version_id for _workunit, version_id in workunits],
            "hr_class": hr_class,
            "most": most,
            "now": now,
        },
    )
    return {row["id"] for row in rows}
