"""Size classes: which size of work suits a host among an app's hosts [pure].

An app may offer work in several sizes, from class 0, the smallest.  Its hosts' speeds are divided
into as many groups of equal number, and the boundaries between them are stored with the app; a host
suits the class of its group (source: BOINC's job size matching).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence


def effective_speed(speed: float, active_fraction: float) -> float:
    """Return the speed by which hosts are compared: it is reduced if the host is seldom on.

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
