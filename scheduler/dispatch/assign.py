"""Assigns results to hosts: reads and judges candidates, locks and claims them.

One set of statements serves several hosts; candidates are judged for one host after the other.  If
other transactions hold all candidates of a host, its search is repeated.

Work of queues above priority group 0 comes before task lists, and these before other work.  A host
that may get lists is therefore searched in the streams of these queues first, by a search of its
own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from time import sleep

from scheduler import sql
from scheduler.config import ProjectConfig
from scheduler.dispatch import broadcasts, bundle_claims, candidates, claim, past_refusals, search
from scheduler.dispatch.candidates import CandidateStream
from scheduler.dispatch.catalog import Catalog, Records
from scheduler.dispatch.facts import (
    AssignedResult,
    HeldResult,
    HostFacts,
    OwnVersion,
    Version,
    VersionFacts,
    Work,
    WorkRequest,
)
from scheduler.dispatch.rules import allotment, estimates, host_limits, lost_results, selection
from scheduler.dispatch.rules.fit import SENSOR, RefusalReason
from scheduler.dispatch.search import Search
from scheduler.queues import slots
from scheduler.queues.facts import QueueFacts
from scheduler.queues.rules import serving
from scheduler.queues.rules.serving import Closed

#: Delays before each scan while other transactions hold all candidates: 200 ms in all.  The scans
#: are repeated because a client that receives no work waits 10 minutes or more.
RETRY_DELAYS_SECONDS = (0.0, 0.005, 0.015, 0.03, 0.05, 0.1)


def review_holdings(
    results: Iterable[HeldResult], hosts: Iterable[tuple[int, Sequence[str], Collection[str]]]
) -> list[lost_results.Holdings]:
    """Compare the results that clients list with those assigned to their hosts.

    Each item of `hosts` is a host id, the result names that its client lists, and the result names
    that it reports.  Returns one `Holdings` per host, in the same order.
    """
    by_name: dict[str, HeldResult] = {}
    by_host: dict[int | None, list[HeldResult]] = {}
    for result in results:
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
class HostRequest:
    """The work request of one host, with the data needed to answer it.

    `work_requests` has one item per kind of device, GPUs first.  `queued_seconds` is the work
    queued per kind of device (empty: CPUs), including devices without a request.  `any_sensor` is
    set if the project has a non-CPU-intensive app, `any_broadcast` and `any_targeted` if it has
    such workunits.  `own_versions` are the volunteer's own app versions on an anonymous host.
    """

    host: HostFacts
    holdings: lost_results.Holdings
    work_requests: tuple[WorkRequest, ...]
    platforms: Sequence[str]
    client_version: int
    queued_seconds: Mapping[str, float] = field(default_factory=dict)
    own_versions: Sequence[OwnVersion] = ()
    any_sensor: bool = False
    any_broadcast: bool = False
    any_targeted: bool = False

    @property
    def anything(self) -> bool:
        """Whether the client requests work."""
        return any(request.anything for request in self.work_requests)


def assign_work(
    host_requests: Sequence[HostRequest],
    *,
    catalog: Catalog,
    records: Records,
    config: ProjectConfig,
    now: datetime,
) -> list[Work]:
    """Resend lost results to each host, or else assign new results; return a `Work` per request.

    Runs inside the transaction of a batch of RPCs, after their reports are processed.  The number
    of statements does not depend on the number of hosts and results.  Further
    scans occur only under contention, after misfits and for rare kinds of work; their number is
    limited.
    """
    works = [Work(asked_for_work=host_request.anything) for host_request in host_requests]
    searches = []
    for host_request, work in zip(host_requests, works, strict=True):
        if not (work.asked_for_work or host_request.any_sensor):
            continue
        work.apps = catalog.current
        work.versions = _versions_for(host_request, catalog, records)
        if work.asked_for_work:
            _settle_lost(work, host_request, now=now)
        if not work.resent and (
            host_search := _search(work, host_request, catalog.queues, config, now=now)
        ):
            searches.append(host_search)
    _assign_new(searches, catalog, config, now=now)
    _add_files(works, catalog)
    past_refusals.remember(
        [
            (host_request.host, host_request.platforms, work)
            for host_request, work in zip(host_requests, works, strict=True)
        ],
        catalog=catalog,
        now=now,
    )
    return works


def _versions_for(
    host_request: HostRequest, catalog: Catalog, records: Records
) -> dict[int, Version]:
    host = host_request.host
    if host.is_anonymous:
        return catalog.own_versions(host_request.own_versions, host_id=host.id, records=records)
    return catalog.versions_for(
        host_id=host.id,
        machine=host.machine,
        platforms=host_request.platforms,
        client_version=host_request.client_version,
        records=records,
    )


def _settle_lost(work: Work, host_request: HostRequest, *, now: datetime) -> None:
    host, holdings = host_request.host, host_request.holdings
    give_up = list(holdings.give_up)
    if holdings.resend:
        # A result is not resent while another transaction holds the lock on its workunit.
        workunit_ids = [result.workunit_id for result in holdings.resend]
        locked = {row.id: row for row in claim.lock(workunit_ids, len(workunit_ids), now=now)}
        resendable = [
            result
            for result in holdings.resend
            if (workunit := locked.get(result.workunit_id)) is not None
            and not allotment.is_bound_elsewhere(
                workunit,
                result.app_version_id,
                allotment.class_of(work.apps.get(result.app_id), host),
            )
        ]
        deadlines = _new_deadlines(resendable, work, host_request, now=now)
        give_up += [result for result in resendable if result.id not in deadlines]
        rows = sql.fetch_into(
            AssignedResult,
            "dispatch/resend_results",
            {
                "result_ids": list(deadlines),
                "deadlines": list(deadlines.values()),
                "host_id": host.id,
                "now": now,
            },
        )
        work.resent = [row for row in rows if row.app_version_id in work.versions]
    if give_up:
        sql.execute(
            "dispatch/expire_lost_results",
            {"result_ids": [result.id for result in give_up], "now": now},
        )
        work.given_up = [result.name for result in give_up]


def _new_deadlines(
    results: Iterable[HeldResult], work: Work, host_request: HostRequest, *, now: datetime
) -> dict[int, datetime]:
    """Return the new deadline of each lost result by id; results that would miss it are omitted.

    Each result adds to the queue of its device, as new work does.
    """
    host, queued = host_request.host, dict(host_request.queued_seconds)
    deadlines: dict[int, datetime] = {}
    for result in results:
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


def _search(
    work: Work,
    host_request: HostRequest,
    queues: Mapping[int, QueueFacts],
    config: ProjectConfig,
    *,
    now: datetime,
) -> Search | None:
    """Return the search for a host, or None if no new work is possible."""
    host = host_request.host
    facts = {version_id: version.facts for version_id, version in work.versions.items()}
    headroom = host_limits.headroom_for(host, config, apps=work.apps.values(), versions=facts)
    if headroom.total == 0:
        work.refused[RefusalReason.IN_PROGRESS_LIMIT] += 1
        work.sentences[RefusalReason.IN_PROGRESS_LIMIT] = (
            "This computer has reached a limit on tasks in progress"
        )
        return None
    if host_request.any_broadcast:
        broadcasts.make(work, host, now=now)
    by_app: dict[int, list[VersionFacts]] = {}
    for version in facts.values():
        by_app.setdefault(version.app_id, []).append(version)
    streams = search.streams_for(
        work.apps,
        host,
        by_app,
        any_targeted=host_request.any_targeted or host_request.any_broadcast,
        queues=queues.values(),
    )
    if not streams:
        return None
    work_requests = [request for request in host_request.work_requests if request.anything]
    if host_request.any_sensor:
        work_requests.append(WorkRequest(device=SENSOR))
    return Search(
        work=work,
        host=host,
        work_requests=work_requests,
        headroom=headroom,
        versions=by_app,
        streams=streams,
        near=search.near(work.apps, host) if not host.taste.active_queues else frozenset(),
        queues=queues,
        closed=_closed_queues(queues, host, now=now),
    )


def _closed_queues(
    queues: Mapping[int, QueueFacts], host: HostFacts, *, now: datetime
) -> dict[int, Closed]:
    """Return the queues that send nothing to a host, by their own rules or by its settings."""
    active, ignored = host.taste.active_queues, host.taste.ignored_queues
    closed = {
        queue.id: serving.why_closed(queue, host_id=host.id, account_id=host.account_id, now=now)
        or serving.why_unwanted(queue, active=active, ignored=ignored)
        for queue in queues.values()
    }
    return {queue_id: reason for queue_id, reason in closed.items() if reason is not None}


def _assign_new(
    searches: Sequence[Search], catalog: Catalog, config: ProjectConfig, *, now: datetime
) -> None:
    """Assign task lists, then single results to the hosts that got no list.

    Results of queues above group 0 come before both.
    """
    sent_by_queue = Counter[int]()
    for host_search in searches:
        host_search.sent_by_queue = sent_by_queue
    _assign_before_lists(searches, catalog, config, now=now)
    seekers = [each for each in searches if not each.work.assigned]
    contended = bundle_claims.assign(seekers, apps=catalog.apps, config=config, now=now)
    searches = [each for each in seekers if not each.work.assigned]
    _assign_single(searches, catalog, config, now=now)
    for host_search in seekers:
        _note_lists(host_search, is_contended=host_search.host.id in contended)


def _assign_before_lists(
    searches: Sequence[Search], catalog: Catalog, config: ProjectConfig, *, now: datetime
) -> None:
    """Assign results of queues above priority group 0 to the hosts that may get task lists.

    Runs no statement without such hosts, or if no such queue serves them.  A host that gets nothing
    is searched in all of its streams later, which also collects its refusals.
    """
    originals: dict[int, Search] = {}
    urgent: list[Search] = []
    for host_search in searches:
        streams = _streams_above_lists(host_search)
        if streams and bundle_claims.may_get_lists(host_search, catalog.apps):
            originals[host_search.host.id] = host_search
            urgent.append(_restricted(host_search, streams))
    if not urgent:
        return
    _count_free_slots(urgent)
    for host_search in urgent:
        host_search.streams = _streams_above_lists(host_search)
    urgent = [host_search for host_search in urgent if host_search.streams]
    if not urgent:
        return
    search.find(urgent, config=config, now=now)
    _claim([each for each in urgent if each.has_feasible], catalog, config, now=now)
    for host_search in urgent:
        if host_search.work.assigned:
            work = originals[host_search.host.id].work
            work.assigned, work.refused = host_search.work.assigned, host_search.work.refused
            work.sentences, work.lasting = host_search.work.sentences, host_search.work.lasting


def _streams_above_lists(host_search: Search) -> tuple[CandidateStream, ...]:
    """Return the streams of queues above group 0 that may send results to the host."""
    return tuple(
        stream
        for stream in host_search.streams
        if stream.queue_id
        and host_search.queues[stream.queue_id].priority_group > bundle_claims.PRIORITY_GROUP
        and host_search.reads_to_send(stream)
    )


def _restricted(host_search: Search, streams: tuple[CandidateStream, ...]) -> Search:
    """Return a search of the same host in some streams of queues above group 0.

    Its `work` is its own, so that its refusals do not remain if it finds nothing.
    """
    work = host_search.work
    queues = {
        queue.id: queue
        for queue in host_search.queues.values()
        if queue.priority_group > bundle_claims.PRIORITY_GROUP
    }
    return Search(
        work=Work(asked_for_work=work.asked_for_work, apps=work.apps, versions=work.versions),
        host=host_search.host,
        work_requests=host_search.work_requests,
        headroom=host_search.headroom.copy(),
        versions=host_search.versions,
        streams=streams,
        queues=queues,
        closed=host_search.closed,
        sent_by_queue=host_search.sent_by_queue,
    )


def _note_lists(host_search: Search, *, is_contended: bool) -> None:
    """Add the refusals of task lists to those of single results."""
    work = host_search.work
    if work.assigned:
        return
    work.retry_soon |= is_contended
    if host_search.list_refusals:
        work.refused += host_search.list_refusals
        work.sentences |= host_search.list_sentences
        work.lasting += host_search.lasting_in_lists


def _assign_single(
    searches: Sequence[Search], catalog: Catalog, config: ProjectConfig, *, now: datetime
) -> None:
    """Scan and claim single results; repeat for hosts whose candidates are locked by others."""
    for pause in RETRY_DELAYS_SECONDS:
        if not searches:
            return
        if pause:
            sleep(pause)
        _count_free_slots(searches)
        search.find(searches, config=config, now=now)
        hopeful = [host_search for host_search in searches if host_search.has_feasible]
        _claim(hopeful, catalog, config, now=now)
        for host_search in hopeful:
            # Other transactions hold candidates of the scan; these may become available.
            host_search.work.retry_soon = not host_search.work.assigned
        searches = [host_search for host_search in hopeful if not host_search.work.assigned]


def _count_free_slots(searches: Sequence[Search]) -> None:
    """Count the free slots of queues that may send to one of the hosts."""
    open_queues = {
        queue.id: queue
        for host_search in searches
        for queue in host_search.queues.values()
        if queue.is_capped and queue.id not in host_search.closed
    }
    if open_queues:
        free_slots = slots.free_slots(open_queues.values())
        for host_search in searches:
            host_search.free_slots = dict(free_slots)


def _claim(
    searches: Sequence[Search], catalog: Catalog, config: ProjectConfig, *, now: datetime
) -> None:
    """Claim for all hosts; judge and claim once more for hosts that received no result."""
    if not searches:
        return
    unavailable = claim.claim(searches, apps=catalog.apps, now=now)
    unserved = [host_search for host_search in searches if not host_search.work.assigned]
    search.find_beyond(unserved, unavailable=unavailable, config=config, now=now)
    if hopeful := [host_search for host_search in unserved if host_search.has_feasible]:
        claim.claim(hopeful, apps=catalog.apps, now=now)


def _add_files(works: Sequence[Work], catalog: Catalog) -> None:
    sent = {result.workunit_id for work in works for result in work.sent}
    if not sent:
        return
    inputs = candidates.input_files(sent)
    for work in works:
        workunit_ids = {result.workunit_id for result in work.sent}
        work.inputs = [file for i in sorted(workunit_ids) for file in inputs.get(i, ())]
        version_ids = {result.app_version_id for result in work.sent}
        work.version_files = [
            file for i in sorted(version_ids) for file in catalog.files.get(i, ())
        ]
