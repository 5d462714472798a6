"""Decides when a result is given up because no host can have it [pure].

Time alone never makes a result unsendable: hosts have to request work and be refused this very
result, each for a reason that lasts (memory, platform, ...).  Only active hosts count: seen in the
last 30 days, not denied, not merged into another.

A refusal is *confirmed* once it is repeated after `refusal_counts_after` (a day), because memory
can be bought, preferences changed and versions published; it is confirmed at once if no offered
version could ever fit the computer.  Hosts that never ask again confirm nothing, so unconfirmed
refusals count as well, up to an upper bound.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

#: A host is active if it was seen within this time.
SEEN_WITHIN: Final = timedelta(days=30)
#: Operators are warned when a result is this share of the way to being given up.
NEARLY: Final = 0.5


def is_unsendable(
    confirmed_hosts: int, refused_hosts: int, seen_hosts: int, max_infeasible: int
) -> bool:
    """Whether a result is to be given up.

    That is once the refusal is confirmed for `max_infeasible` hosts or for all active hosts, or
    once `max_infeasible` hosts were refused it, confirmed or not.  If no host was seen at all, none
    was refused.
    """
    return refused_hosts > 0 and (
        confirmed_hosts >= limit(seen_hosts, max_infeasible)
        or refused_hosts >= max(1, max_infeasible)
    )


def is_nearly(refused_hosts: int, seen_hosts: int, max_infeasible: int) -> bool:
    """Whether operators are warned: half of the needed hosts were refused."""
    return refused_hosts > 0 and refused_hosts >= NEARLY * limit(seen_hosts, max_infeasible)


def limit(seen_hosts: int, max_infeasible: int) -> int:
    """Return for how many hosts a refusal must be confirmed until the result is given up.

    >>> limit(seen_hosts=3, max_infeasible=100)
    3
    """
    return max(1, min(seen_hosts, max_infeasible) if seen_hosts else max_infeasible)
