"""Reads unsent results in the order of queues for `acquire`, and judges them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from scheduler import sql
from scheduler.config import ProjectConfig
from scheduler.dispatch import search
from scheduler.dispatch.candidates import BEFORE_ALL, CandidateStream, Cursor, StreamKey
from scheduler.dispatch.facts import Candidate
from scheduler.dispatch.search import Search
from scheduler.lifecycle import Target
from scheduler.pool.facts import Extent, Filter
from scheduler.queues import slots

#: The maximum number of pages that one attempt reads, each eight times as long as the one before.
MAX_PAGES = 6
#: The rows of the first page for each stream: at least these, and several for each wanted result,
#: because other hosts may claim some of them.
_MIN_PAGE_ROWS = 64
_ROWS_PER_RESULT = 4
#: The maximum number of rows of a page for each stream.
MAX_PAGE_ROWS = 16_384
#: The maximum number of rows that one request reads, of all streams, pages and attempts together.
#: It takes about half a second if the limits of the request exclude them, and two or three seconds
#: if each is judged.
MAX_ROWS = 65_536
#: The position before all results of a queue of the order lifo.
_BEFORE_NEWEST: Cursor = (0, 2**63 - 1)
#: Stream, position, sendable, result id, workunit id and priority of a page without rows.
_NO_ROW = (0, 0, False, 0, 0, 0)


def find(
    host_search: Search,
    wanted: Filter,
    *,
    queue_ids: Collection[int],
    max_rows: int,
    config: ProjectConfig,
    now: datetime,
) -> Extent:
    """Judge results of these queues, page by page, until the host has enough or all are read.

    At most `MAX_PAGES` pages with at most `max_rows` rows together are read.  The pages of all
    queues are read together, one statement a page, and share the rows that are left equally.
    """
    if not host_search.headroom.total:
        return Extent(results_read=0, all_read=False)
    _open_streams(host_search, wanted, queue_ids)
    rows = max(_MIN_PAGE_ROWS, _ROWS_PER_RESULT * host_search.headroom.total)
    rows_left, unread = max_rows, set(host_search.open_streams)
    for page_number in range(MAX_PAGES):
        if not host_search.open_streams or not rows_left:
            break
        page = min(rows << 3 * page_number, MAX_PAGE_ROWS, _equal_share(host_search, rows_left))
        page_streams = set(islice(host_search.open_streams, rows_left))
        rows_left -= _read(host_search, wanted, page_streams, page, now=now)
        unread -= page_streams - host_search.open_streams.keys()
        count_before = host_search.feasible_count
        if any(host_search.candidates.values()):
            search.find_beyond([host_search], unavailable=(), config=config, now=now)
        _drop_unfit(host_search)
        search.close_full_queues(host_search)
        # Further results would miss their deadlines behind those that are feasible already.
        is_stuck = host_search.saturated and host_search.feasible_count <= count_before
        chosen = set(host_search.chosen_workunits)
        if is_stuck or len(chosen) >= host_search.headroom.total:
            break
    return Extent(results_read=max_rows - rows_left, all_read=not unread)


def _equal_share(host_search: Search, rows_left: int) -> int:
    return max(1, rows_left // len(host_search.open_streams))


def _drop_unfit(host_search: Search) -> None:
    """Drop the candidates that the host can never run, so that they are judged only once."""
    unfit = {candidate.result_id for candidate, _, _ in host_search.work.lasting}
    if unfit:
        host_search.candidates = {
            key: {id_: each for id_, each in candidates.items() if id_ not in unfit}
            for key, candidates in host_search.candidates.items()
        }


def _open_streams(host_search: Search, wanted: Filter, queue_ids: Collection[int]) -> None:
    """Open the streams of queues that have a free slot, for the apps that the host can run."""
    queues = [
        queue
        for queue_id, queue in host_search.queues.items()
        if queue_id in queue_ids and queue_id not in host_search.closed
    ]
    if capped := [queue for queue in queues if queue.is_capped]:
        host_search.free_slots = dict(slots.free_slots(capped))
    streams = [
        CandidateStream(
            app=app,
            target_kind=int(Target.QUEUE),
            target_id=queue.id,
            order=queue.order,
            after=_BEFORE_NEWEST if queue.order == "lifo" else BEFORE_ALL,
        )
        for queue in queues
        for app in host_search.work.apps.values()
        if queue.app_id in {None, app.id} and wanted.app in {None, app.name}
    ]
    host_search.streams = tuple(filter(host_search.reads_to_send, streams))
    host_search.open_streams = {stream.key: stream.after for stream in host_search.streams}


def _read(
    host_search: Search,
    wanted: Filter,
    stream_keys: Collection[StreamKey],
    page: int,
    *,
    now: datetime,
) -> int:
    """Add the candidates of the next page of these streams; return the number of rows read."""
    streams = [each for each in host_search.streams if each.key in stream_keys]
    rows = sql.fetch_rows("pool/read_acquirable", _params(host_search, wanted, streams, page, now))
    rows.sort(key=itemgetter(0, 1))  # stream, position
    by_stream = {number: list(each) for number, each in groupby(rows, key=itemgetter(0))}
    rows_read = 0
    for number, stream in enumerate(streams):
        stream_rows = by_stream.get(number, [])
        (_, length, _, _, workunit_id, priority, *_) = stream_rows[-1] if stream_rows else _NO_ROW
        rows_read += length
        if length < page:
            del host_search.open_streams[stream.key]
        else:
            host_search.open_streams[stream.key] = priority, workunit_id
        page_candidates = (Candidate._make(row[3:]) for row in stream_rows if row[2])
        earlier = host_search.candidates.get(stream.key, {})
        added = {each.result_id: each for each in page_candidates}
        host_search.candidates[stream.key] = {**earlier, **added}
    return rows_read


def _params(
    host_search: Search,
    wanted: Filter,
    streams: Sequence[CandidateStream],
    page: int,
    now: datetime,
) -> dict[str, Any]:
    host = host_search.host
    after = [host_search.open_streams[stream.key] for stream in streams]
    limits = asdict(wanted) | {
        # A result that needs more than the host has would be refused.
        "max_memory_bytes": _least(wanted.max_memory_bytes, host.memory_bytes),
        "max_disk_bytes": _least(wanted.max_disk_bytes, host.disk_bytes),
    }
    return limits | {
        "streams": list(range(len(streams))),
        "app_ids": [stream.app.id for stream in streams],
        "queue_ids": [stream.queue_id for stream in streams],
        "orders": [stream.order for stream in streams],
        "one_result_per": [stream.app.one_result_per for stream in streams],
        "retry_after": [stream.app.retry_same_account_after for stream in streams],
        "after_priority": [priority for priority, _ in after],
        "after_id": [workunit_id for _, workunit_id in after],
        "page": page,
        "host_id": host.id,
        "account_id": host.account_id,
        "now": now,
    }


def _least(limit: float | None, available: float) -> float:
    return available if limit is None else min(limit, available)
