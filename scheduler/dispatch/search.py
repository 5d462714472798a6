"""Scans the unsent results for several hosts at once, page by page.

Candidates are judged for one host after the other.  A candidate that is chosen for one host is not
offered to the next host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from time import perf_counter

from scheduler import sql
from scheduler.config import ProjectConfig
from scheduler.dispatch import candidates as candidate_reads
from scheduler.dispatch.candidates import BEFORE_ALL, CandidateStream, Cursor, Page, StreamKey
from scheduler.dispatch.chosen import Chosen
from scheduler.dispatch.facts import (
    AppFacts,
    Assignment,
    Candidate,
    HostFacts,
    VersionFacts,
    Work,
    WorkRequest,
)
from scheduler.dispatch.rules import selection, trust
from scheduler.dispatch.rules.fit import RefusalReason, Rules
from scheduler.dispatch.rules.host_limits import Headroom
from scheduler.dispatch.scan_cursors import HostScanCursors, LowWaterMarks
from scheduler.lifecycle import Target
from scheduler.queues.facts import QueueFacts
from scheduler.queues.rules import serving
from scheduler.queues.rules.serving import Closed

#: The maximum number of pages judged in one RPC, each four times as long as the one before.  If
#: more pages exist and no result is feasible, the reply sets a delay of 2 seconds.
MAX_PAGES = 6
#: Page size for an app without a version for the host: its results are read only to explain their
#: refusal.
REFUSAL_PAGE_SIZE = 8
#: The maximum number of workunits read because the host has their input files.
MAX_NEAR_WORKUNITS = 200
#: The assumed run time of a result, used for the page size before any result is judged.
ASSUMED_RESULT_SECONDS = 3600.0

_host_scan_cursors = HostScanCursors()
low_water_marks = LowWaterMarks()


@dataclass(slots=True, kw_only=True)
class Search:
    """The work request of one host and the candidates read and judged for it so far.

    `streams` are the candidate streams to read, `near` the ids of workunits whose input files the
    host has.  `queues` are the named queues by id, `closed` those that send nothing to this host,
    `free_slots` the number of free slots of those with a limit, and `sent_by_queue` counts by queue
    the results that this batch of RPCs has sent; all searches of the batch share one counter.
    `feasible` holds the assignments that the host may receive, by device, best first, including
    spare ones; `saturated` the devices for which a further result would miss its deadline
    (`selection.Choice`).  `candidates` holds the candidates read, by stream; `open_streams` the
    cursors of the streams to read further; `seen` the cursors at the end of the pages read.
    `list_refusals` counts the refused task lists by reason, `list_sentences` has a sentence per
    reason, and `lasting_in_lists` holds the refusals that do not pass with time.
    """

    work: Work
    host: HostFacts
    work_requests: Sequence[WorkRequest]
    headroom: Headroom
    versions: Mapping[int, Sequence[VersionFacts]]
    streams: tuple[CandidateStream, ...]
    near: frozenset[int] = frozenset()
    queues: Mapping[int, QueueFacts] = field(default_factory=dict)
    closed: Mapping[int, Closed] = field(default_factory=dict)
    free_slots: dict[int, int] = field(default_factory=dict)
    sent_by_queue: Counter[int] = field(default_factory=Counter)
    spare: int = selection.SPARE
    feasible: dict[str, list[Assignment]] = field(default_factory=dict)
    saturated: set[str] = field(default_factory=set)
    candidates: dict[StreamKey | None, Mapping[int, Candidate]] = field(default_factory=dict)
    open_streams: dict[StreamKey, Cursor] = field(default_factory=dict)
    seen: dict[StreamKey, Cursor] = field(default_factory=dict)
    list_refusals: Counter[str] = field(default_factory=Counter)
    list_sentences: dict[str, str] = field(default_factory=dict)
    lasting_in_lists: list[tuple[Candidate, str, str]] = field(default_factory=list)

    def reads_to_send(self, stream: CandidateStream) -> bool:
        """Return whether results of the stream may be sent, or are read to explain a refusal."""
        queue_id = stream.queue_id
        return stream.app.id in self.versions and not (
            queue_id and (queue_id in self.closed or self.free_slots.get(queue_id) == 0)
        )

    @property
    def has_cursors(self) -> bool:
        """Whether the host's scan cursors concern the streams of this search.

        The streams of queues have no cursors.
        """
        return any(not stream.queue_id for stream in self.streams)

    @property
    def has_feasible(self) -> bool:
        return any(self.feasible.values())

    @property
    def feasible_count(self) -> int:
        return sum(map(len, self.feasible.values()))

    @property
    def has_enough(self) -> bool:
        """Whether every device's request is met, with spare results."""
        return not any(self._unmet())

    @property
    def is_saturated(self) -> bool:
        """Whether every device whose request is not met is saturated."""
        return all(request.device in self.saturated for request in self._unmet())

    def _unmet(self) -> Iterable[WorkRequest]:
        for request in self.work_requests:
            assignments = self.feasible.get(request.device, ())
            needed = self.needed(request)
            if request.anything and (not needed or len(assignments) < needed + self.spare):
                yield request

    def needed(self, request: WorkRequest) -> int:
        """Return the number of feasible results that meet a request, at most the headroom."""
        return selection.needed(
            self.feasible.get(request.device, ()), request, max_results=self.headroom.total
        )

    @property
    def chosen(self) -> Iterable[Assignment]:
        """The assignments that meet the host's requests, without spare assignments."""
        for request in self.work_requests:
            yield from self.feasible.get(request.device, ())[: self.needed(request)]

    @property
    def chosen_workunits(self) -> list[int]:
        return [assignment.candidate.workunit_id for assignment in self.chosen]

    @property
    def spare_workunits(self) -> list[int]:
        return [
            assignment.candidate.workunit_id
            for request in self.work_requests
            for assignment in self.feasible.get(request.device, ())[self.needed(request) :]
        ]

    @property
    def expected_count(self) -> int:
        """The estimated number of results that meet the requests, limited by the headroom."""
        return min(
            self.headroom.total,
            sum(int(request.seconds / ASSUMED_RESULT_SECONDS) for request in self.work_requests),
        )


def streams_for(
    apps: Mapping[int, AppFacts],
    host: HostFacts,
    versions: Mapping[int, object],
    *,
    any_targeted: bool,
    queues: Iterable[QueueFacts] = (),
) -> tuple[CandidateStream, ...]:
    """Return the candidate streams that may hold work for this host.

    The streams of `queues` that do not serve the host are included, to explain the refusal.  A
    client with `active_queues` gets no work without a queue.
    """
    targets = [(Target.EVERYBODY, 0)]
    if any_targeted:
        targets += [(Target.HOST, host.id), (Target.ACCOUNT, host.account_id)]
        targets += [(Target.TEAM, host.team_id)] if host.team_id is not None else []
    if host.taste.active_queues:
        targets = []
    streams = [
        CandidateStream(app=app, target_kind=int(kind), target_id=target_id)
        for app in apps.values()
        for kind, target_id in (targets if app.id in versions else targets[:1])
    ]
    streams += [
        CandidateStream(
            app=app, target_kind=int(Target.QUEUE), target_id=queue.id, order=queue.order
        )
        for queue in queues
        for app in apps.values()
        if queue.app_id in (None, app.id)
    ]
    return tuple(streams)


def near(apps: Mapping[int, AppFacts], host: HostFacts) -> frozenset[int]:
    """Return the ids of workunits with unsent results that use sticky files of this host.

    Only workunits of apps with locality scheduling are returned, at most `MAX_NEAR_WORKUNITS`.
    """
    app_ids = [app.id for app in apps.values() if app.locality]
    if not app_ids or not host.near_files:
        return frozenset()
    params = {"names": list(host.near_files), "app_ids": app_ids, "most": MAX_NEAR_WORKUNITS}
    return frozenset(
        row["workunit_id"] for row in sql.fetch("dispatch/read_workunits_near", params)
    )


def find(searches: Sequence[Search], *, config: ProjectConfig, now: datetime) -> None:
    """Judge candidates page by page until each host has enough or no candidates are left.

    A saturated host is finished at the first page that adds no feasible result.  A scan that began
    at a cursor and found no feasible result is repeated from the beginning of the streams.
    """
    begun_later = []
    for search in searches:
        host_cursors = _host_scan_cursors.of(search.host.id, now=now)
        begin = {
            stream.key: low_water_marks.of(stream.key, now=now) if stream.has_mark else BEFORE_ALL
            for stream in search.streams
        }
        search.open_streams = begin | {
            key: host_cursors[key] for key in begin.keys() & host_cursors.keys()
        }
        if any(cursor != BEFORE_ALL for cursor in search.open_streams.values()):
            begun_later.append(search)
    _scan(searches, config=config, now=now)
    if again := [search for search in begun_later if not search.has_feasible]:
        for search in again:
            search.open_streams = {stream.key: BEFORE_ALL for stream in search.streams}
        _scan(again, config=config, now=now)


def find_beyond(
    searches: Sequence[Search],
    *,
    unavailable: Collection[int],
    config: ProjectConfig,
    now: datetime,
) -> None:
    """Judge all candidates in `searches` again, except results of `unavailable` workunits.

    Reads no further candidates.  The choices replace those in the searches.
    """
    chosen = Chosen()
    for search in searches:
        search.candidates = {
            stream: {
                result_id: candidate
                for result_id, candidate in candidates.items()
                if candidate.workunit_id not in unavailable
            }
            for stream, candidates in search.candidates.items()
        }
        _judge(search, chosen, together=len(searches) > 1, config=config, now=now)


def _scan(searches: Sequence[Search], *, config: ProjectConfig, now: datetime) -> None:
    for search in searches:
        search.spare = selection.SPARE if len(searches) == 1 else selection.SPARE_TOGETHER
        search.candidates, search.feasible, search.seen, search.saturated = {}, {}, {}, set()
        search.work.retry_soon = False
    unfinished = [search for search in searches if search.streams]
    # The page size is an estimate, because durations are unknown until results are judged.  If the
    # page is too short, another is read.
    expected_count = 2 * (len(unfinished) - 1 + sum(search.expected_count for search in unfinished))
    size = max(config.candidates_per_page, expected_count)
    chosen = Chosen()
    for page_number in range(MAX_PAGES):
        if not unfinished:
            return
        _read(unfinished, size << 2 * page_number, is_first=not page_number, now=now)
        still_unfinished = []
        for search in unfinished:
            count_before = search.feasible_count
            _judge(search, chosen, together=len(searches) > 1, config=config, now=now)
            if not search.has_feasible and search.has_cursors:
                _host_scan_cursors.keep(search.host.id, search.seen, now=now)
            close_full_queues(search)
            # A saturated host already has feasible results; another page is read only if this page
            # added feasible results.
            is_stuck = search.is_saturated and search.feasible_count <= count_before
            if search.open_streams and not (search.has_enough or is_stuck):
                still_unfinished.append(search)
        unfinished = still_unfinished
    for search in unfinished:
        search.work.retry_soon = not search.has_feasible


def close_full_queues(search: Search) -> None:
    """Close the streams of queues of which this host cannot be sent more than is feasible already.

    Without this, a host that wants spare results of a nearly full queue would read all its pages.
    """
    if not search.headroom.by_queue:
        return
    feasible = Counter(
        assignment.candidate.queue_id
        for assignments in search.feasible.values()
        for assignment in assignments
    )
    for stream in search.streams:
        room = search.headroom.by_queue.get(stream.queue_id)
        if stream.queue_id and room is not None and feasible[stream.queue_id] >= room:
            search.open_streams.pop(stream.key, None)


def _read(searches: Sequence[Search], size: int, *, is_first: bool, now: datetime) -> None:
    """Read the next page of every open stream, once for all hosts."""
    wanted: dict[tuple[StreamKey, Cursor], CandidateStream] = {}
    for search in searches:
        for stream in search.streams:
            if (after := search.open_streams.get(stream.key)) is not None:
                page_size = size if search.reads_to_send(stream) else REFUSAL_PAGE_SIZE
                earlier = wanted.get((stream.key, after))
                if earlier is None or earlier.page < page_size:
                    wanted[stream.key, after] = replace(stream, after=after, page=page_size)
    began = perf_counter()
    pages, near_page = candidate_reads.candidates(
        list(wanted.values()),
        hosts=[search.host for search in searches],
        near=frozenset().union(*(search.near for search in searches)) if is_first else (),
        now=now,
    )
    seconds = perf_counter() - began
    read = dict(zip(wanted, pages, strict=True))
    for (key, after), page in read.items():
        if wanted[key, after].has_mark:
            low_water_marks.record_scan(
                key, after=after, first=page.first, seconds=seconds, now=now
            )
    for search in searches:
        _turn(search, read, near_page)


def _turn(search: Search, read: Mapping[tuple[StreamKey, Cursor], Page], near_page: Page) -> None:
    """Add the candidates of the pages that were read, and advance the open streams."""
    if search.near:
        _add(search, None, near_page.for_host(search.host))
    for stream in search.streams:
        if (after := search.open_streams.pop(stream.key, None)) is None:
            continue
        page = read[stream.key, after]
        runs_here = search.reads_to_send(stream)
        candidates = page.for_host(search.host)
        _add(
            search,
            stream.key,
            candidates if runs_here else dict(islice(candidates.items(), REFUSAL_PAGE_SIZE)),
        )
        if page.last is not None:
            # A queue is always read from its head: a slot may become free at any time.
            if not stream.queue_id:
                search.seen[stream.key] = page.last
            if page.full and runs_here:
                search.open_streams[stream.key] = page.last


def _add(search: Search, stream: StreamKey | None, candidates: Mapping[int, Candidate]) -> None:
    """Add candidates of a stream; `stream` None means the workunits in `search.near`.

    Candidates of workunits in `search.near` are flagged `is_near`.
    """
    if search.near:
        candidates = {
            result_id: candidate._replace(is_near=True)
            if candidate.workunit_id in search.near
            else candidate
            for result_id, candidate in candidates.items()
            if stream is not None or candidate.workunit_id in search.near
        }
    earlier = search.candidates.get(stream)
    # Pages are shared by several hosts, so they are never modified.
    search.candidates[stream] = {**earlier, **candidates} if earlier else candidates


def _judge(
    search: Search, chosen: Chosen, *, together: bool, config: ProjectConfig, now: datetime
) -> None:
    """Judge the candidates that are not chosen for other hosts.

    One page of each stream is judged first.  If the host then has not enough results, all
    candidates are judged again.
    """
    apps = search.work.apps
    rules = Rules(
        apps=apps,
        versions=search.versions,
        headroom=search.headroom,
        today=now.date(),
        daily_quota=config.daily_quota,
        chance_key=config.chance_key,
        together=together,
        queues=search.queues,
        closed=search.closed,
    )
    if search.queues:
        search.headroom.by_queue = _room_in_queues(search, chosen)
    draw = trust.draw(config.chance_key, search.host.id, int(now.timestamp() * 1000))
    page_size = max(config.candidates_per_page, 4 * search.expected_count)
    for max_per_stream in (page_size, None):
        left = chosen.left_for(search.host, search.candidates, apps, max_per_stream)
        _judge_some(search, left, rules, draw)
        if search.has_enough or max(map(len, search.candidates.values()), default=0) <= page_size:
            break
    chosen.note(search.host, [assignment.candidate for assignment in search.chosen])


def _room_in_queues(search: Search, chosen: Chosen) -> dict[int, int]:
    """Return how many results of each queue with limits may be chosen for this host."""
    others = chosen.sent_to_others(search.host)
    rooms = {
        queue.id: serving.room_for_host(
            queue,
            free_slots=search.free_slots.get(queue.id),
            chosen_for_others=others[queue.id],
            sent_before=search.sent_by_queue[queue.id],
        )
        for queue in search.queues.values()
    }
    return {queue_id: room for queue_id, room in rooms.items() if room is not None}


def _judge_some(search: Search, candidates: Iterable[Candidate], rules: Rules, draw: float) -> None:
    work, host = search.work, search.host
    rules = replace(rules, headroom=search.headroom.copy())
    ordered, unwanted = selection.order(candidates, host=host, rules=rules, draw=draw)
    choice = selection.choose(ordered, host=host, work_requests=search.work_requests, rules=rules)
    for candidate, sentence in unwanted:
        choice.refuse(candidate, RefusalReason.TASTE, sentence)
    search.feasible, search.saturated = choice.feasible, choice.saturated
    work.refused = Counter({str(reason): n for reason, n in choice.refused.items()})
    work.sentences = {str(reason): text for reason, text in choice.example.items()}
    work.lasting = [(c, str(reason), text) for c, reason, text in choice.lasting]
