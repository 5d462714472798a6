"""Groups new results into task lists [pure].

The results of a batch are taken in the order of priority and creation.  A list is complete when it
has the batch's `bundle_size` of results, or when the next result would exceed its
`bundle_duration`.  The results that are left wait for more, at most `MAX_WAIT`.  If the batch sets
neither, each result is a list of its own: it is the retry of a member of a list that the submitter
made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

#: The results of an incomplete list wait this long for more results.
MAX_WAIT: Final = timedelta(seconds=10)
#: The number of unknown names that a message lists.
_MAX_SHOWN: Final = 10


class NewResult(NamedTuple):
    """An unsent result that waits for a task list, with the limits of its batch's lists.

    `seconds` is the expected run time, `created_at` the creation of the workunit, `waits_since`
    that of the result.
    """

    result_id: int
    workunit_id: int
    app_id: int
    batch_id: int
    priority: int
    created_at: datetime
    waits_since: datetime
    seconds: float
    max_size: int | None = None
    max_seconds: float | None = None


def group(results: Iterable[NewResult], *, now: datetime) -> list[list[NewResult]]:
    """Return the lists that can be made now; results that wait for more are left out."""
    key = attrgetter("batch_id", "app_id")
    lists: list[list[NewResult]] = []
    for _, same in groupby(sorted(results, key=key), key=key):
        ordered = sorted(same, key=lambda r: (-r.priority, r.created_at, r.workunit_id))
        complete, rest = _split(ordered)
        lists += complete
        if rest and min(result.waits_since for result in rest) + MAX_WAIT <= now:
            lists.append(rest)
    return lists


def _split(ordered: Sequence[NewResult]) -> tuple[list[list[NewResult]], list[NewResult]]:
    """Return the complete lists of a batch's results, and the results of the last, open list."""
    complete: list[list[NewResult]] = []
    members: list[NewResult] = []
    seconds = 0.0
    for result in ordered:
        if members and not _fits(result, seconds):
            complete.append(members)
            members, seconds = [], 0.0
        members.append(result)
        seconds += result.seconds
        if _is_full(result, members, seconds):
            complete.append(members)
            members, seconds = [], 0.0
    return complete, members


def _fits(result: NewResult, seconds: float) -> bool:
    return result.max_seconds is None or seconds + result.seconds <= result.max_seconds


def _is_full(result: NewResult, members: Sequence[NewResult], seconds: float) -> bool:
    if result.max_size is None and result.max_seconds is None:
        return True
    has_time = result.max_seconds is None or seconds < result.max_seconds
    has_room = result.max_size is None or len(members) < result.max_size
    return not (has_time and has_room)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedWorkunit:
    """A workunit of which a submitter makes a task list.

    `bundle_id` is its current list, 0 while it waits for one, and None if it was sent singly.
    """

    name: str
    app: str
    is_adaptive: bool = False
    has_ended: bool = False
    is_cancelled: bool = False
    bundle_id: int | None = None
    is_sent: bool = False
    waits: bool = False
    is_single: bool = True
    has_target: bool = False


def list_faults(names: Sequence[str], workunits: Sequence[ListedWorkunit]) -> list[str]:
    """Return the reasons why the named workunits cannot be a task list; [] if they can."""
    faults = []
    missing = sorted(set(names) - {workunit.name for workunit in workunits})
    if missing:
        shown = ", ".join(missing[:_MAX_SHOWN]) + ", ..." * (len(missing) > _MAX_SHOWN)
        faults.append(f"The batch has no workunits {shown}. Hint: check the names.")
    if len({workunit.app for workunit in workunits}) > 1:
        faults.append("The workunits belong to several apps. Hint: make a list for each app.")
    return faults + [fault for workunit in workunits for fault in _listing_faults(workunit)]


def _listing_faults(workunit: ListedWorkunit) -> Iterator[str]:
    name = workunit.name
    if workunit.has_ended or workunit.is_cancelled:
        yield f"{name} has ended or was cancelled. Hint: leave it out."
    elif workunit.bundle_id:
        yield f"{name} is in task list {workunit.bundle_id}. Hint: leave it out."
    elif workunit.is_sent:
        yield f"{name} is computed by a host. Hint: wait for its report, or leave it out."
    elif workunit.waits:
        yield f"{name} waits for other workunits. Hint: make its list when they are done."
    elif not workunit.is_single or workunit.is_adaptive:
        yield f"{name} may have several results. Hint: members of a list have one at a time."
    elif workunit.has_target:
        yield f"{name} has a target or a queue. Hint: members of a list have neither."
