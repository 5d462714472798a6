"""Compares the results that a client lists with those assigned to its host.

This module uses no database, files or clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from scheduler.dispatch.facts import HeldResult
from scheduler.lifecycle import ResultState

#: The maximum number of resends of a result (PROTOCOL trap 12: a client may discard results that it
#: cannot run).
MAX_RESENDS = 5


@dataclass(slots=True)
class Holdings:
    """The decisions about the results that a client lists or has lost.

    `abort` and `abort_if_not_started` are names of listed results; `resend` and `give_up` are lost
    results.  `held_counts` is the number of results in progress on the host by (app id, app version
    id), listed by the client or not; `promised_bytes` is the sum of the maximum sizes of their
    outputs.  `acknowledge` are the ids of the results that the client lists for the first time.
    """

    abort: list[str] = field(default_factory=list)
    abort_if_not_started: list[str] = field(default_factory=list)
    resend: list[HeldResult] = field(default_factory=list)
    give_up: list[HeldResult] = field(default_factory=list)
    held_counts: Counter[tuple[int, int | None]] = field(default_factory=Counter)
    promised_bytes: int = 0
    acknowledge: list[int] = field(default_factory=list)


def review(
    results: Iterable[HeldResult],
    *,
    host_id: int,
    listed: Collection[str],
    reported: Collection[str],
) -> Holdings:
    """Return the decisions about the results that a client lists or has lost.

    `results` are the results assigned to the host and those named in `listed`.  A result in
    progress on this host whose name is in neither `listed` nor `reported` is lost (PROTOCOL 2.5,
    6.3).
    """
    holdings = Holdings()
    by_name = {result.name: result for result in results}
    for name in listed:
        result = by_name.get(name)
        if result is None or result.cancelled or result.error_mask:
            holdings.abort.append(name)
        elif result.assimilated or result.state == ResultState.NO_REPLY:
            holdings.abort_if_not_started.append(name)
        elif result.state != ResultState.IN_PROGRESS:
            holdings.abort.append(name)
    for result in by_name.values():
        if result.host_id != host_id or result.state != ResultState.IN_PROGRESS:
            continue
        holdings.held_counts[result.app_id, result.app_version_id] += 1
        holdings.promised_bytes += result.output_bytes
        if result.name in listed:
            if not result.acknowledged:
                holdings.acknowledge.append(result.id)
        elif result.name not in reported:
            _lost(result, holdings)
    return holdings


def _lost(result: HeldResult, holdings: Holdings) -> None:
    is_settled = result.has_canonical or result.cancelled or result.error_mask
    if is_settled or result.resent_count >= MAX_RESENDS:
        holdings.give_up.append(result)
    else:
        holdings.resend.append(result)


def new_deadline(
    result: HeldResult,
    *,
    now: datetime,
    active_fraction: float = 1.0,
    queued_seconds: float = 0.0,
) -> datetime | None:
    """Return the old deadline of a resent result if the host can meet it, or else a new one.

    `active_fraction` is the share of the time in which the host computes, `queued_seconds` the work
    queued before the result.  Returns None if the host would miss a new deadline, too; then the
    result must not be resent.  As for new work, this is not checked if the queue is empty (PROTOCOL
    10.3).
    """
    # A number: as a timedelta, the longest estimates overflow.
    seconds = queued_seconds + result.seconds / active_fraction
    if result.report_deadline and seconds <= (result.report_deadline - now).total_seconds():
        return result.report_deadline
    fits = queued_seconds <= 0 or seconds <= result.delay_bound.total_seconds()
    return now + result.delay_bound if fits else None
