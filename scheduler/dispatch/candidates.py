"""Reads for dispatch: what hosts hold, candidates for them, their files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from scheduler import sql
from scheduler.dispatch.facts import InputFile
from scheduler.hosts.facts import AppFacts, Candidate, HeldResult, HostFacts
from scheduler.models import AppVersion

#: A place in a lane: (priority, workunit id); behind it come less urgent and younger ones.
Cursor = tuple[int, int]
#: A lane: (app id, kind of target, id of target).
LaneKey = tuple[int, int, int]
#: The cursor before every candidate.
BEFORE_ALL: Cursor = (2**31 - 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A row of unsent results, best first: an app's, for everybody or for one alone.

    `after` is the cursor behind which to read, `page` how many rows.
    """

    app: AppFacts
    target_kind: int = 0
    target_id: int = 0
    after: Cursor = BEFORE_ALL
    page: int = 0

    @property
    def key(self) -> LaneKey:
        """By what the lane is known."""
        return self.app.id, self.target_kind, self.target_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a lane: what may be sent, by result, best first, and how to turn it.

    `by_hosts` and `by_accounts` say, by result, which of the asking hosts and accounts may not have
    it.  `first` is the cursor just before the page's first result, `last` where it ended, both None
    if it is empty; if it is `full`, more may come behind it.
    """

    candidates: Mapping[int, Candidate] = field(default_factory=dict)
    by_hosts: Mapping[int, Collection[int]] = field(default_factory=dict)
    by_accounts: Mapping[int, Collection[int]] = field(default_factory=dict)
    first: Cursor | None = None
    last: Cursor | None = None
    full: bool = False

    def for_host(self, host: HostFacts) -> Mapping[int, Candidate]:
        """What the rule of one result a workunit lets this host have."""
        barred = {i for i, taken in self.by_hosts.items() if host.id in taken}
        barred |= {i for i, taken in self.by_accounts.items() if host.account_id in taken}
        if not barred:
            return self.candidates
        return {i: one for i, one in self.candidates.items() if i not in barred}


def candidates(
    lanes: Sequence[Lane], *, hosts: Iterable[HostFacts], near: Collection[int] = (), now: datetime
) -> tuple[list[Page], Page]:
    """The next page of each lane, for any of the hosts; and the unsent results of `near` ones."""
    asking = tuple(hosts)
    rows = sql.fetch_rows(
        "dispatch/read_candidates",
        {
            "lanes": list(range(len(lanes))),
            "app_ids": [lane.app.id for lane in lanes],
            "target_kinds": [lane.target_kind for lane in lanes],
            "target_ids": [lane.target_id for lane in lanes],
            "one_result_per": [lane.app.one_result_per for lane in lanes],
            "retry_after": [lane.app.retry_same_account_after for lane in lanes],
            "after_priority": [lane.after[0] for lane in lanes],
            "after_id": [lane.after[1] for lane in lanes],
            "pages": [lane.page for lane in lanes],
            "near_workunit_ids": list(near),
            "host_ids": [host.id for host in asking],
            "account_ids": [host.account_id for host in asking],
            "now": now,
        },
    )
    rows.sort(key=itemgetter(slice(2)))  # lane, position
    by_lane = {number: list(each) for number, each in groupby(rows, key=itemgetter(0))}
    pages = [_page(by_lane.get(number, ()), lane.page) for number, lane in enumerate(lanes)]
    return pages, _page(by_lane.get(-1, ()), 0)


def _page(rows: Sequence[tuple[Any, ...]], size: int) -> Page:
    if not rows:
        return Page()
    page: dict[int, Candidate] = {}
    by_hosts, by_accounts = {}, {}
    for _lane, _position, sendable, hosts, accounts, *columns in rows:
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


def workunits_near(names: Collection[str], app_ids: Sequence[int], *, most: int) -> list[int]:
    """Up to `most` workunits of these apps with unsent results that use one of these files."""
    rows = sql.fetch(
        "dispatch/read_workunits_near",
        {"names": list(names), "app_ids": list(app_ids), "most": most},
    )
    return [row["workunit_id"] for row in rows]


def known_results(
    *, reported_ids: Collection[int], names: Collection[str], host_ids: Collection[int]
) -> list[HeldResult]:
    """The results of these ids and names, and all that these hosts should hold."""
    return sql.fetch_into(
        HeldResult,
        "dispatch/read_results",
        {"reported_ids": list(reported_ids), "names": list(names), "host_ids": list(host_ids)},
    )


def input_files(workunit_ids: Collection[int]) -> dict[int, list[InputFile]]:
    """The input files of these workunits, in their order."""
    files: dict[int, list[InputFile]] = {}
    wanted = {"workunit_ids": sorted(workunit_ids)}
    for file in sql.fetch_into(InputFile, "dispatch/read_input_files", wanted):
        files.setdefault(file.workunit_id, []).append(file)
    return files


def platforms() -> list[tuple[str, str, str]]:
    """(platform, its friendly name, plan class) of every current app version."""
    return list(
        AppVersion.objects.filter(deprecated=False, app__deprecated=False)
        .order_by("platform__name", "plan_class")
        .values_list("platform__name", "platform__user_friendly_name", "plan_class")
        .distinct()
    )
