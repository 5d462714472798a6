"""Size classes: matches the size of workunits to the speed of hosts.

An app may have workunits of several size classes; class 0 is the smallest.  The speeds of the app's
hosts are divided into as many groups of equal number, and the boundaries between the groups are
stored with the app.  The class of a host's group suits the host (source: BOINC's job size
matching).

This module uses no database, files or clock.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence


def effective_speed(speed: float, active_fraction: float) -> float:
    """Return a host's average speed, including the time in which it does not compute.

    ``daemons/sql/read_host_speeds.sql`` computes the same.
    """
    return speed * active_fraction


def size_class(speed: float, bounds: Sequence[float]) -> int:
    """Return the size class that suits a host; `bounds` ascend, in the same unit as `speed`.

    >>> size_class(0.5e9, [1e9, 5e9]), size_class(1e9, [1e9, 5e9]), size_class(9e9, [1e9, 5e9])
    (0, 1, 2)
    """
    return bisect_right(bounds, speed)


def boundaries(speeds: Iterable[float], n_size_classes: int) -> list[float]:
    """Return the ascending boundaries between the classes, one fewer than classes.

    Returns an empty list with one class, or with fewer speeds than classes.  Speeds that are not
    finite and positive are ignored.

    >>> boundaries([4, 1, 3, 2], 2)
    [3]
    """
    usable = sorted(speed for speed in speeds if math.isfinite(speed) and speed > 0)
    if n_size_classes <= 1 or len(usable) < n_size_classes:
        return []
    return [usable[len(usable) * place // n_size_classes] for place in range(1, n_size_classes)]
