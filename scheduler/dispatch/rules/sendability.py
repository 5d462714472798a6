"""When a result is given up because nobody may have it [pure].

Time alone never makes a result unsendable: hosts have to ask for work and be refused this very
result, each for a reason that lasts (memory, platform, ...).  Counted are hosts that are still
about: seen in the last 30 days, not denied, not merged into another.

A refusal is *confirmed* once it is repeated after `refusal_counts_after` (a day), for memory can be
bought, preferences changed and versions published; it is at once where no version that is offered
could ever fit the computer.  Hosts that never ask again confirm nothing, so that refusals alone
count as well, up to an upper bound.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

#: A host is still about if it was seen so recently.
SEEN_WITHIN: Final = timedelta(days=30)
#: Operators hear of a result once it is this part of the way to be given up.
NEARLY: Final = 0.5


def is_unsendable(
    confirmed_hosts: int, refused_hosts: int, seen_hosts: int, max_infeasible: int
) -> bool:
    """Whether a result is to be given up.

    It is once the refusal is confirmed for `max_infeasible` hosts or for all that there are, or
    once `max_infeasible` hosts were refused it, confirmed or not.  Where no host was seen at all,
    none was refused.
    """
    return refused_hosts > 0 and (
        confirmed_hosts >= limit(seen_hosts, max_infeasible)
        or refused_hosts >= max(1, max_infeasible)
    )


def is_nearly(refused_hosts: int, seen_hosts: int, max_infeasible: int) -> bool:
    """Whether operators should hear of it: half the hosts that it takes were refused."""
    return refused_hosts > 0 and refused_hosts >= NEARLY * limit(seen_hosts, max_infeasible)


def limit(seen_hosts: int, max_infeasible: int) -> int:
    """For how many hosts a refusal must be confirmed until the result is given up.

    >>> limit(seen_hosts=3, max_infeasible=100)
    3
    """
    return max(1, min(seen_hosts, max_infeasible) if seen_hosts else max_infeasible)
