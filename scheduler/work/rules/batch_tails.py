"""When what is left of a batch is its tail, and worth hurrying on [pure].

Source: BOINC's batch acceleration.  The last few workunits of a batch are late because slow hosts
have them, or because they failed once: whoever waits for the whole batch waits for those.
"""

from __future__ import annotations


def is_tail(*, total: int, left: int, percent: int) -> bool:
    """Whether so much of a batch is over that the rest is its tail.

    >>> is_tail(total=10, left=1, percent=90), is_tail(total=10, left=2, percent=90)
    (True, False)
    """
    return left > 0 and (total - left) * 100 >= percent * total
