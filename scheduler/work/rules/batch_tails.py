"""Decides when a batch has reached its tail and is accelerated [pure].

Source: BOINC's batch acceleration.  The last few workunits delay the whole batch, because slow
hosts have their results, or because earlier results failed.
"""

from __future__ import annotations


def is_tail(*, total: int, left: int, percent: int) -> bool:
    """Return whether at least `percent` percent of a batch, but not all of it, is finished.

    >>> is_tail(total=10, left=1, percent=90), is_tail(total=10, left=2, percent=90)
    (True, False)
    """
    return left > 0 and (total - left) * 100 >= percent * total
