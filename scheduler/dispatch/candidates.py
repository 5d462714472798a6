"""Queries for dispatch: candidates, held results, input files and platforms."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from scheduler import sql
from scheduler.dispatch.facts import AppFacts, Candidate, HeldResult, HostFacts, InputFile
from scheduler.lifecycle import Target
from scheduler.models import AppVersion

#: A position in a candidate stream: (priority, workunit id).  Streams are sorted by descending
#: priority, then by ascending workunit id.  In a stream of the order lifo, the workunit id is
#: negated, so that positions ascend in the order of the stream.
Cursor = tuple[int, int]
#: A candidate stream: (app id, kind of target, id of target).
StreamKey = tuple[int, int, int]
#: PostgreSQL's largest bigint.
_MAX_ID = 2**63 - 1
#: The cursor before all candidates.
BEFORE_ALL: Cursor = (2**31 - 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateStream:
    """The unsent results of an app for all hosts, for one target, or of one queue, best first.

    `order` is the order of the queue.  `after` is the cursor after which to read, `page` the
    maximum number of rows.
    """

    app: AppFacts
    target_kind: int = 0
    target_id: int = 0
    after: Cursor = BEFORE_ALL
    page: int = 0
    order: str = "priority"

    @property
    def queue_id(self) -> int:
        """The id of the stream's queue; 0 for results without a queue."""
        return self.target_id if self.target_kind == Target.QUEUE else 0

    @property
    def has_mark(self) -> bool:
        """Whether scans may begin at a low-water mark.

        Scans of a queue of the order fifo or lifo begin at its head, so that the order is exact.
        """
        return self.order == "priority"

    @property
    def key(self) -> StreamKey:
        return self.app.id, self.target_kind, self.target_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a candidate stream: the sendable results by id, best first.

    `by_hosts` and `by_accounts` hold, by result id, the ids of the requesting hosts and accounts
    that must not receive the result.  `first` is the cursor just before the page's first result,
    `last` the cursor at its last result; both are None if the page is empty.  If `full` is set,
    more results may follow.
    """

    candidates: Mapping[int, Candidate] = field(default_factory=dict)
    by_hosts: Mapping[int, Collection[int]] = field(default_factory=dict)
    by_accounts: Mapping[int, Collection[int]] = field(default_factory=dict)
    first: Cursor | None = None
    last: Cursor | None = None
    full: bool = False

    def for_host(self, host: HostFacts) -> Mapping[int, Candidate]:
        """Return the candidates that this host may receive by the app's `one_result_per` rule."""
        barred = {id_ for id_, host_ids in self.by_hosts.items() if host.id in host_ids}
        barred |= {id_ for id_, ids in self.by_accounts.items() if host.account_id in ids}
        if not barred:
            return self.candidates
        return {id_: candidate for id_, candidate in self.candidates.items() if id_ not in barred}


def candidates(
    streams: Sequence[CandidateStream],
    *,
    hosts: Iterable[HostFacts],
    near: Collection[int] = (),
    now: datetime,
) -> tuple[list[Page], Page]:
    """Return the next page of each stream, and a page of the unsent results of `near`.

    `near` holds workunit ids.  One statement reads the pages for all hosts; `Page.for_host` returns
    the candidates for one of them.
    """
    requesting = tuple(hosts)
    indexed = [(n, stream) for n, stream in enumerate(streams) if stream.order == "priority"]
    rows = sql.fetch_rows(
        "dispatch/read_candidates",
        {
            "streams": [number for number, _ in indexed],
            "app_ids": [stream.app.id for _, stream in indexed],
            "target_kinds": [stream.target_kind for _, stream in indexed],
            "target_ids": [stream.target_id for _, stream in indexed],
            "one_result_per": [stream.app.one_result_per for _, stream in indexed],
            "retry_after": [stream.app.retry_same_account_after for _, stream in indexed],
            "after_priority": [stream.after[0] for _, stream in indexed],
            "after_id": [stream.after[1] for _, stream in indexed],
            "pages": [stream.page for _, stream in indexed],
            **_lanes(streams),
            "near_workunit_ids": list(near),
            "host_ids": [host.id for host in requesting],
            "account_ids": [host.account_id for host in requesting],
            "now": now,
        },
    )
    rows.sort(key=itemgetter(slice(2)))  # stream, position
    by_stream = {number: list(each) for number, each in groupby(rows, key=itemgetter(0))}
    pages = [
        _page(by_stream.get(number, ()), stream.page, sign=-1 if stream.order == "lifo" else 1)
        for number, stream in enumerate(streams)
    ]
    return pages, _page(by_stream.get(-1, ()), 0)


def _lanes(streams: Sequence[CandidateStream]) -> dict[str, list[Any]]:
    """Return the parameters of the streams that are read in the order of their workunits."""
    lanes = [(n, stream) for n, stream in enumerate(streams) if stream.order != "priority"]
    if not lanes:
        return _NO_LANES
    return {
        "lanes": [number for number, _ in lanes],
        "lane_app_ids": [stream.app.id for _, stream in lanes],
        "lane_queue_ids": [stream.target_id for _, stream in lanes],
        "lane_one_result_per": [stream.app.one_result_per for _, stream in lanes],
        "lane_retry_after": [stream.app.retry_same_account_after for _, stream in lanes],
        "lane_after_id": [
            (-stream.after[1] or _MAX_ID) if stream.order == "lifo" else stream.after[1]
            for _, stream in lanes
        ],
        "lane_pages": [stream.page for _, stream in lanes],
        "lane_is_lifo": [stream.order == "lifo" for _, stream in lanes],
    }


_NO_LANES: Final[dict[str, list[Any]]] = {
    "lanes": [],
    "lane_app_ids": [],
    "lane_queue_ids": [],
    "lane_one_result_per": [],
    "lane_retry_after": [],
    "lane_after_id": [],
    "lane_pages": [],
    "lane_is_lifo": [],
}


def _page(rows: Sequence[tuple[Any, ...]], size: int, *, sign: int = 1) -> Page:
    """Return the page of these rows; `sign` is -1 if their workunit ids descend."""
    if not rows:
        return Page()
    page: dict[int, Candidate] = {}
    by_hosts, by_accounts = {}, {}
    for _stream, _position, sendable, hosts, accounts, *columns in rows:
        if sendable:
            candidate = page[columns[0]] = Candidate._make(columns)
            if hosts:
                by_hosts[candidate.result_id] = hosts
            if accounts:
                by_accounts[candidate.result_id] = accounts
    (_, _, _, _, _, _, first_id, first_priority, *_) = rows[0]
    (_, position, _, _, _, _, last_id, last_priority, *_) = rows[-1]
    return Page(
        candidates=page,
        by_hosts=by_hosts,
        by_accounts=by_accounts,
        first=(first_priority, sign * first_id - 1),
        last=(last_priority, sign * last_id),
        full=position >= size,
    )


def known_results(
    *, reported_ids: Collection[int], names: Collection[str], host_ids: Collection[int]
) -> list[HeldResult]:
    """Return the results with these ids or names, and all results in progress on these hosts."""
    return sql.fetch_into(
        HeldResult,
        "dispatch/read_results",
        {"reported_ids": list(reported_ids), "names": list(names), "host_ids": list(host_ids)},
    )


def input_files(workunit_ids: Collection[int]) -> dict[int, list[InputFile]]:
    """Return the input files of each workunit, by workunit id, in the workunit's order."""
    files: dict[int, list[InputFile]] = {}
    wanted = {"workunit_ids": sorted(workunit_ids)}
    for file in sql.fetch_into(InputFile, "dispatch/read_input_files", wanted):
        files.setdefault(file.workunit_id, []).append(file)
    return files


def platforms() -> list[tuple[str, str, str]]:
    """Return the distinct (platform, friendly name, plan class) of all current app versions."""
    return list(
        AppVersion.objects.filter(deprecated=False, app__deprecated=False)
        .order_by("platform__name", "plan_class")
        .values_list("platform__name", "platform__user_friendly_name", "plan_class")
        .distinct()
    )
