"""Reads for dispatch: what hosts hold, candidates for them, their files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from scheduler import sql
from scheduler.facts.handout import InputFile
from scheduler.facts.hosts import AppFacts, Candidate, HeldResult, HostFacts
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


class Offered(NamedTuple):
    """One unsent result with what keeps some of the asking hosts and accounts from having it.

    `near` says that it was read because its workunit is one of those asked for by id.
    """

    candidate: Candidate
    by_hosts: Collection[int]
    by_accounts: Collection[int]
    near: bool = False

    def is_for(self, host: HostFacts) -> bool:
        """Whether the rule of one result a workunit lets this host have it."""
        return host.id not in self.by_hosts and host.account_id not in self.by_accounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a lane: what may be sent, best first, and how to turn it.

    `first` is the cursor just before the page's first result, `last` where it ended, both None if
    it is empty; if it is `full`, more may come behind it.
    """

    offered: tuple[Offered, ...] = ()
    first: Cursor | None = None
    last: Cursor | None = None
    full: bool = False


def candidates(
    lanes: Sequence[Lane], *, hosts: Iterable[HostFacts], near: Collection[int] = (), now: datetime
) -> tuple[list[Page], tuple[Offered, ...]]:
    """The next page of each lane, for any of the hosts; and the unsent results of `near` ones."""
    asking = tuple(hosts)
    rows = sql.fetch(
        "read_candidates",
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
    rows.sort(key=lambda row: row["position"])
    by_lane: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_lane.setdefault(row["lane"], []).append(row)
    pages = [_page(lane, by_lane.get(number, ())) for number, lane in enumerate(lanes)]
    return pages, _offered(by_lane.get(-1, ()), near=True)


def _page(lane: Lane, rows: Sequence[Mapping[str, Any]]) -> Page:
    if not rows:
        return Page()
    first, last = rows[0], rows[-1]
    return Page(
        offered=_offered(rows),
        first=(first["priority"], first["workunit_id"] - 1),
        last=(last["priority"], last["workunit_id"]),
        full=last["position"] >= lane.page,
    )


def _offered(rows: Iterable[Mapping[str, Any]], *, near: bool = False) -> tuple[Offered, ...]:
    return tuple(
        Offered(_candidate(row), row["by_hosts"] or (), row["by_accounts"] or (), near)
        for row in rows
        if row["sendable"]
    )


_COLUMNS = tuple(name for name in Candidate._fields if name != "is_near")


def _candidate(row: Mapping[str, Any]) -> Candidate:
    return Candidate(**{column: row[column] for column in _COLUMNS})


def workunits_near(names: Collection[str], app_ids: Sequence[int], *, most: int) -> list[int]:
    """Up to `most` workunits of these apps with unsent results that use one of these files."""
    rows = sql.fetch(
        "read_workunits_near", {"names": list(names), "app_ids": list(app_ids), "most": most}
    )
    return [row["workunit_id"] for row in rows]


def known_results(
    *, reported_ids: Collection[int], names: Collection[str], host_ids: Collection[int]
) -> list[HeldResult]:
    """The results of these ids and names, and all that these hosts should hold."""
    return sql.fetch_into(
        HeldResult,
        "read_results",
        {"reported_ids": list(reported_ids), "names": list(names), "host_ids": list(host_ids)},
    )


def input_files(workunit_ids: Collection[int]) -> dict[int, list[InputFile]]:
    """The input files of these workunits, in their order."""
    files: dict[int, list[InputFile]] = {}
    wanted = {"workunit_ids": sorted(workunit_ids)}
    for file in sql.fetch_into(InputFile, "read_input_files", wanted):
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
