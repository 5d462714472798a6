"""Orders results of several apps in proportion to the apps' weights.

A new app, or a batch of a million workunits, must not delay other apps.  So among results of equal
priority, the apps are served in proportion to their weights, whatever the length of their queues.

Theory of operation.  No state is kept between calls, so that any number of web processes may
dispatch.  Each app has an arc of a circle, as long as its weight.  A random number is the point of
the first result; the point of each further result is a golden section farther, which distributes
even a few points as evenly as possible.  The app whose arc contains the point is served.  An app
whose queue is empty is removed from the circle.

This module uses no database, files or clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

_GOLDEN: Final = (5**0.5 - 1) / 2


def interleave(
    queues: Mapping[int, Sequence[T]], weights: Mapping[int, float], draw: float
) -> list[T]:
    """Return all items of the queues (by app) in the order in which to dispatch them.

    The order within a queue is kept.  `draw` is a random number in [0, 1), different for each call.
    A missing weight counts as 1; an app of weight 0 is served after all others.  Call this once per
    priority, the highest first.
    """
    waiting = {app: list(reversed(items)) for app, items in sorted(queues.items()) if items}
    arcs = {app: max(0.0, weights.get(app, 1.0)) for app in waiting}
    order: list[T] = []
    while waiting:
        app = _app_at(draw, arcs)
        order.append(waiting[app].pop())
        if not waiting[app]:
            del waiting[app], arcs[app]
        draw = (draw + _GOLDEN) % 1.0
    return order


def _app_at(point: float, weights: Mapping[int, float]) -> int:
    """Return the app whose arc contains the point; if all weights are 0, all arcs are equal."""
    total = sum(weights.values())
    arcs = weights if total > 0 else dict.fromkeys(weights, 1.0)
    left = point * (total or len(arcs))
    last = 0
    for app, arc in arcs.items():
        if arc <= 0:
            continue
        last = app
        left -= arc
        if left < 0:
            break
    return last
