"""Which size of work suits a host: its class among an app's hosts [pure].

An app may offer work in several sizes, from class 0, the smallest.  Its hosts' speeds are divided
into as many groups of equal number, and the boundaries between them are kept with the app; a host
suits the class of the group that it falls into (source: BOINC's job size matching).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence


def effective_speed(speed: float, active_fraction: float) -> float:
    """The speed by which hosts are compared: a fast one that is seldom on is slow.

    The census reckons the same in ``daemons/sql/read_host_speeds.sql``.
    """
    return speed * active_fraction


def size_class(speed: float, bounds: Sequence[float]) -> int:
    """The size class that suits a host; `bounds` ascend, in the same unit as `speed`.

    >>> size_class(0.5e9, [1e9, 5e9]), size_class(1e9, [1e9, 5e9]), size_class(9e9, [1e9, 5e9])
    (0, 1, 2)
    """
    return bisect_right(bounds, speed)


def boundaries(speeds: Iterable[float], n_size_classes: int) -> list[float]:
    """The boundaries between the classes, one fewer than classes; empty if there is no division.

    There is none with one class, or with fewer speeds than classes.  Speeds that are no positive
    numbers do not count.

    >>> boundaries([4, 1, 3, 2], 2)
    [3]
    """
    known = sorted(speed for speed in speeds if math.isfinite(speed) and speed > 0)
    if n_size_classes <= 1 or len(known) < n_size_classes:
        return []
    return [known[len(known) * place // n_size_classes] for place in range(1, n_size_classes)]
