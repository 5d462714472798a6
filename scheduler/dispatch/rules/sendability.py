"""Decides when a result is given up because it fits no host.

Time alone does not make a result unsendable: hosts must request work and be refused this result,
each for a lasting reason (memory, platform, ...).  Only active hosts count: seen in the last 30
days, not denied, not merged into another.

A refusal is *confirmed* once it is repeated after `refusal_counts_after` (a day), because memory
can be bought, preferences changed and versions published; it is confirmed at once if no current
version can ever fit the computer.  A host that requests no more work cannot confirm its refusal, so
a result is also given up after `max_infeasible` unconfirmed refusals.

This module uses no database, files or clock.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

#: A host is active if it was seen within this time.
SEEN_WITHIN: Final = timedelta(days=30)
#: Operators are warned at this share of the number of refusals at which a result is given up.
NEARLY: Final = 0.5


def is_unsendable(
    confirmed_hosts: int, refused_hosts: int, seen_hosts: int, max_infeasible: int
) -> bool:
    """Return True if a result must be given up.

    It is given up if the refusal is confirmed for `max_infeasible` hosts or for all active hosts,
    or if `max_infeasible` hosts were refused it, confirmed or not.
    """
    return refused_hosts > 0 and (
        confirmed_hosts >= limit(seen_hosts, max_infeasible)
        or refused_hosts >= max(1, max_infeasible)
    )


def is_nearly(refused_hosts: int, seen_hosts: int, max_infeasible: int) -> bool:
    """Return True if operators must be warned that a result may soon be given up.

    This is the case if it was refused to at least half as many hosts as `limit` returns.
    """
    return refused_hosts > 0 and refused_hosts >= NEARLY * limit(seen_hosts, max_infeasible)


def limit(seen_hosts: int, max_infeasible: int) -> int:
    """Return the number of hosts with a confirmed refusal at which a result is given up.

    >>> limit(seen_hosts=3, max_infeasible=100)
    3
    """
    return max(1, min(seen_hosts, max_infeasible) if seen_hosts else max_infeasible)
