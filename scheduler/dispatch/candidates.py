"""Queries for dispatch: candidates, held results, input files and platforms."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from scheduler import sql
from scheduler.dispatch.facts import AppFacts, Candidate, HeldResult, HostFacts, InputFile
from scheduler.models import AppVersion

#: A position in a candidate stream: (priority, workunit id).  Streams are sorted by descending
#: priority, then by ascending workunit id.
Cursor = tuple[int, int]
#: A candidate stream: (app id, kind of target, id of target).
StreamKey = tuple[int, int, int]
#: The cursor before all candidates.
BEFORE_ALL: Cursor = (2**31 - 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateStream:
    """The unsent results of an app for all hosts or for one target, best first.

    `after` is the cursor after which to read, `page` the maximum number of rows.
    """

    app: AppFacts
    target_kind: int = 0
    target_id: int = 0
    after: Cursor = BEFORE_ALL
    page: int = 0

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
    rows = sql.fetch_rows(
        "dispatch/read_candidates",
        {
            "streams": list(range(len(streams))),
            "app_ids": [stream.app.id for stream in streams],
            "target_kinds": [stream.target_kind for stream in streams],
            "target_ids": [stream.target_id for stream in streams],
            "one_result_per": [stream.app.one_result_per for stream in streams],
            "retry_after": [stream.app.retry_same_account_after for stream in streams],
            "after_priority": [stream.after[0] for stream in streams],
            "after_id": [stream.after[1] for stream in streams],
            "pages": [stream.page for stream in streams],
            "near_workunit_ids": list(near),
            "host_ids": [host.id for host in requesting],
            "account_ids": [host.account_id for host in requesting],
            "now": now,
        },
    )
    rows.sort(key=itemgetter(slice(2)))  # stream, position
    by_stream = {number: list(each) for number, each in groupby(rows, key=itemgetter(0))}
    pages = [_page(by_stream.get(number, ()), stream.page) for number, stream in enumerate(streams)]
    return pages, _page(by_stream.get(-1, ()), 0)


def _page(rows: Sequence[tuple[Any, ...]], size: int) -> Page:
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
        first=(first_priority, first_id - 1),
        last=(last_priority, last_id),
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
