"""Divides a maximum of results in progress among the queues of a balance [pure].

Source: Disbatch's QueueBalance, which sets the limits of all its queues every 30 seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Demand(NamedTuple):
    """The results of a queue in a balance; a `group` of a lower number is served first."""

    queue_id: int
    group: int
    in_progress: int
    unsent: int


def limits(demands: Sequence[Demand], *, max_in_progress: int) -> dict[int, int]:
    """Return the limit of each queue by id.

    A group gets what the groups before it do not need.  The queues of a group share equally, except
    that a queue gets no more than it has results to send and in progress.  The part that
    no queue needs goes to the first group, so that new work of it is sent at once.

    No result is interrupted: a queue above its share sends nothing until it is below it.  Meanwhile
    the other queues get less, so that the results in progress of all queues, plus those that the
    limits still permit, never exceed `max_in_progress`, unless more are in progress already.
    """
    shares = _shares(demands, max_in_progress)
    # Results above the shares of their queues use up a part of it.
    left = max(0, max_in_progress - sum(demand.in_progress for demand in demands))
    result: dict[int, int] = {}
    for demand in sorted(demands, key=lambda demand: (demand.group, demand.queue_id)):
        more = min(left, max(0, shares[demand.queue_id] - demand.in_progress))
        left -= more
        result[demand.queue_id] = min(shares[demand.queue_id], demand.in_progress + more)
    return result


def _shares(demands: Sequence[Demand], max_in_progress: int) -> dict[int, int]:
    """Return the share of each queue, as if no result were in progress."""
    groups: dict[int, list[Demand]] = {}
    for demand in sorted(demands, key=lambda demand: (demand.group, demand.queue_id)):
        groups.setdefault(demand.group, []).append(demand)
    left = max_in_progress
    shares: dict[int, int] = {}
    for group in groups.values():
        wanted = {demand.queue_id: demand.in_progress + demand.unsent for demand in group}
        shares |= divide(left, wanted)
        left = max_in_progress - sum(shares.values())
    if groups:
        first = next(iter(groups.values()))
        equal = _equally(left, [demand.queue_id for demand in first])
        shares |= {queue_id: shares[queue_id] + more for queue_id, more in equal.items()}
    return shares


def divide(count: int, wanted: Mapping[int, int]) -> dict[int, int]:
    """Divide a number equally, but no share exceeds what is wanted.

    >>> divide(10, {1: 2, 2: 9, 3: 9})
    {1: 2, 2: 4, 3: 4}
    """
    shares = dict.fromkeys(wanted, 0)
    while count > 0 and (open_ids := [id_ for id_ in wanted if shares[id_] < wanted[id_]]):
        for id_, share in _equally(count, open_ids).items():
            more = min(share, wanted[id_] - shares[id_])
            shares[id_] += more
            count -= more
    return shares


def _equally(count: int, ids: Iterable[int]) -> dict[int, int]:
    """Divide a number equally; the first ids get one more if it cannot be divided."""
    receivers = list(ids)
    share, rest = divmod(count, len(receivers))
    return {id_: share + (place < rest) for place, id_ in enumerate(receivers)}
