"""Gives results to hosts: read, judge, lock, claim; look again if others won.

Several hosts are served together, by one set of statements; each is judged by itself, in its turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from time import sleep

from scheduler import sql
from scheduler.config import ProjectConfig
from scheduler.dispatch import broadcasts, candidates, claim, past_refusals, search
from scheduler.dispatch.catalog import Catalog, Offer, Records
from scheduler.dispatch.facts import Given, Work
from scheduler.dispatch.rules import allotment, estimates, host_limits, lost_results, selection
from scheduler.dispatch.search import Search
from scheduler.hosts.facts import HeldResult, HostFacts, OwnVersion, VersionFacts, Wish

#: How long, in seconds, to wait before each further look when others hold all candidates: 200 ms in
#: all.  "No work" is said only when it is true; a client told so stays away for 10 minutes or more.
LOOKS = (0.0, 0.005, 0.015, 0.03, 0.05, 0.1)


def review_holdings(
    known: Iterable[HeldResult], hosts: Iterable[tuple[int, Sequence[str], Collection[str]]]
) -> list[lost_results.Holdings]:
    """What to tell each client of the results it lists, and which of its host's results it lost.

    Of each host: its id, the names it lists, those it reports.
    """
    by_name: dict[str, HeldResult] = {}
    by_host: dict[int | None, list[HeldResult]] = {}
    for result in known:
        by_name[result.name] = result
        by_host.setdefault(result.host_id, []).append(result)
    return [
        lost_results.review(
            [*by_host.get(host_id, ()), *(by_name[name] for name in listed if name in by_name)],
            host_id=host_id,
            listed=set(listed),
            reported=reported,
        )
        for host_id, listed, reported in hosts
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What one host asks for, and what must be known of it beside its facts.

    `wishes` are its devices', GPUs first; `queued_seconds` is the work in front of each kind of
    device (empty: CPUs), also of those for which nothing is asked.  `any_sensor`, `any_broadcast`
    and `any_targeted` say whether the project has work of these kinds at all.  `own_versions` are
    those of an anonymous host.
    """

    host: HostFacts
    holdings: lost_results.Holdings
    wishes: tuple[Wish, ...]
    platforms: Sequence[str]
    client_version: int
    queued_seconds: Mapping[str, float] = field(default_factory=dict)
    own_versions: Sequence[OwnVersion] = ()
    any_sensor: bool = False
    any_broadcast: bool = False
    any_targeted: bool = False

    @property
    def anything(self) -> bool:
        """Whether the client asked for work."""
        return any(wish.anything for wish in self.wishes)


def give(
    askings: Sequence[Asking],
    *,
    catalog: Catalog,
    records: Records,
    config: ProjectConfig,
    now: datetime,
) -> list[Work]:
    """Give each host what it asks for, as far as there is and it may have; lost results come first.

    Inside the transaction of a batch of RPCs, after their reports are settled.  Runs a constant
    number of statements, however many ask and however much is given; only contention, misfits and
    what is rare make it look again, a bounded number of times.
    """
    works = [Work(asked=asking.anything) for asking in askings]
    searches = []
    for asking, work in zip(askings, works, strict=True):
        if not (work.asked or asking.any_sensor):
            continue
        offer = _offer(asking, catalog, records)
        work.apps, work.versions = offer.apps, offer.versions
        if work.asked:
            _settle_lost(work, asking, now=now)
        if not work.resent and (found := _search(work, asking, config, now=now)):
            searches.append(found)
    _give_new(searches, catalog, config, now=now)
    _add_files(works, catalog)
    past_refusals.remember(
        [
            (asking.host, asking.platforms, work)
            for asking, work in zip(askings, works, strict=True)
        ],
        catalog=catalog,
        now=now,
    )
    return works


def _offer(asking: Asking, catalog: Catalog, records: Records) -> Offer:
    if asking.host.is_anonymous:
        return catalog.own_offer(asking.own_versions, host_id=asking.host.id, records=records)
    return catalog.offer_for(
        host_id=asking.host.id,
        machine=asking.host.machine,
        platforms=asking.platforms,
        client_version=asking.client_version,
        records=records,
    )


def _settle_lost(work: Work, asking: Asking, *, now: datetime) -> None:
    host, holdings = asking.host, asking.holdings
    give_up = list(holdings.give_up)
    if holdings.resend:
        # Nobody sends a result whose workunit somebody is just now deciding about.
        workunit_ids = [result.workunit_id for result in holdings.resend]
        locked = {one.id: one for one in claim.lock(workunit_ids, len(workunit_ids), now=now)}
        lost_ones = [
            result
            for result in holdings.resend
            if (workunit := locked.get(result.workunit_id)) is not None
            and not allotment.is_bound_elsewhere(
                workunit,
                result.app_version_id,
                allotment.class_of(work.apps.get(result.app_id), host),
            )
        ]
        deadlines = _new_deadlines(lost_ones, work, asking, now=now)
        give_up += [result for result in lost_ones if result.id not in deadlines]
        rows = sql.fetch_into(
            Given,
            "dispatch/resend_results",
            {
                "result_ids": list(deadlines),
                "deadlines": list(deadlines.values()),
                "host_id": host.id,
                "now": now,
            },
        )
        work.resent = [given for given in rows if given.app_version_id in work.versions]
    if give_up:
        sql.execute(
            "dispatch/expire_lost_results",
            {"result_ids": [result.id for result in give_up], "now": now},
        )
        work.given_up = [result.name for result in give_up]


def _new_deadlines(
    lost_ones: Iterable[HeldResult], work: Work, asking: Asking, *, now: datetime
) -> dict[int, datetime]:
    """Return the deadlines of lost results by id, without those that would be late again.

    Each adds to the queue of its device, as new work does.
    """
    host, queued = asking.host, dict(asking.queued_seconds)
    deadlines: dict[int, datetime] = {}
    for result in lost_ones:
        version = work.versions.get(result.app_version_id or 0)
        is_burden = version is None or not version.app.non_cpu_intensive
        device = version.facts.device if version else ""
        active = estimates.active_share(host, on_gpu=bool(device))
        deadline = lost_results.new_deadline(
            result,
            now=now,
            active_fraction=active,
            queued_seconds=queued.get(device, 0.0) if is_burden else 0.0,
        )
        if deadline is None:
            continue
        deadlines[result.id] = deadline
        if version and is_burden:
            growth = selection.queue_growth(result.seconds / active, version.facts, host)
            queued[device] = queued.get(device, 0.0) + growth
    return deadlines


def _search(work: Work, asking: Asking, config: ProjectConfig, *, now: datetime) -> Search | None:
    """What to look for on behalf of a host; None if it can have nothing new."""
    host = asking.host
    facts = {version_id: version.facts for version_id, version in work.versions.items()}
    rooms = host_limits.rooms_for(host, config, apps=work.apps.values(), versions=facts)
    if rooms.total == 0:
        work.refused[selection.Refusal.IN_PROGRESS_LIMIT] += 1
        work.sentences[selection.Refusal.IN_PROGRESS_LIMIT] = (
            "This computer has reached a limit on tasks in progress"
        )
        return None
    if asking.any_broadcast:
        broadcasts.make(work, host, now=now)
    by_app: dict[int, list[VersionFacts]] = {}
    for version in facts.values():
        by_app.setdefault(version.app_id, []).append(version)
    lanes = search.lanes_for(
        work.apps, host, by_app, any_targeted=asking.any_targeted or asking.any_broadcast
    )
    if not lanes:
        return None
    return Search(
        work=work,
        host=host,
        wishes=_wishes(asking),
        rooms=rooms,
        versions=by_app,
        lanes=lanes,
        near=search.near(work.apps, host),
    )


def _wishes(asking: Asking) -> tuple[Wish, ...]:
    wishes = tuple(wish for wish in asking.wishes if wish.anything)
    return (*wishes, Wish(device=selection.SENSOR)) if asking.any_sensor else wishes


def _give_new(
    searches: Sequence[Search], catalog: Catalog, config: ProjectConfig, *, now: datetime
) -> None:
    """Look and claim for all, and again for those from whom others have taken everything."""
    for pause in LOOKS:
        if not searches:
            return
        if pause:
            sleep(pause)
        search.find(searches, config=config, now=now)
        hopeful = [one for one in searches if one.found_any]
        _claim(hopeful, catalog, config, now=now)
        for one in hopeful:
            # There was work when we looked, and others held it: it may still be had.
            one.work.come_again = not one.work.given
        searches = [one for one in hopeful if not one.work.given]


def _claim(
    searches: Sequence[Search], catalog: Catalog, config: ProjectConfig, *, now: datetime
) -> None:
    """Claim for all; for those left with nothing, once more: what was read goes further."""
    if not searches:
        return
    held = claim.claim(searches, apps=catalog.apps, now=now)
    short = [one for one in searches if not one.work.given]
    search.find_beyond(short, held=held, config=config, now=now)
    if hopeful := [one for one in short if one.found_any]:
        claim.claim(hopeful, apps=catalog.apps, now=now)


def _add_files(works: Sequence[Work], catalog: Catalog) -> None:
    sent = {given.workunit_id for work in works for given in work.sent}
    if not sent:
        return
    inputs = candidates.input_files(sent)
    for work in works:
        workunit_ids = {given.workunit_id for given in work.sent}
        work.inputs = [file for i in sorted(workunit_ids) for file in inputs.get(i, ())]
        version_ids = {given.app_version_id for given in work.sent}
        work.version_files = [
            file for i in sorted(version_ids) for file in catalog.files.get(i, ())
        ]
