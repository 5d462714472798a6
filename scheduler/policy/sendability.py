"""When a result is given up because nobody may have it [pure].

Time alone never makes a result unsendable: hosts have to ask for work and be refused this very
result, each for a reason that lasts (memory, platform, ...).  Counted are hosts that are still
about: seen in the last 30 days, not denied, not merged into another.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

#: A host is still about if it was seen so recently.
SEEN_WITHIN: Final = timedelta(days=30)
#: Operators hear of a result once it is this part of the way to be given up.
NEARLY: Final = 0.5


def is_unsendable(refused_hosts: int, seen_hosts: int, max_infeasible: int) -> bool:
    """Whether a result is to be given up: refused to enough hosts, or to all that there are.

    Where no host was seen at all, nobody has been refused.
    """
    return refused_hosts > 0 and refused_hosts >= limit(seen_hosts, max_infeasible)


def is_nearly(refused_hosts: int, seen_hosts: int, max_infeasible: int) -> bool:
    """Whether operators should hear of it: half the hosts that it takes were refused."""
    return refused_hosts > 0 and refused_hosts >= NEARLY * limit(seen_hosts, max_infeasible)


def limit(seen_hosts: int, max_infeasible: int) -> int:
    """How many hosts must have been refused a result until it is given up.

    >>> limit(seen_hosts=3, max_infeasible=100)
    3
    """
    return max(1, min(seen_hosts, max_infeasible) if seen_hosts else max_infeasible)
