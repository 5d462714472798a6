"""In which order the apps' work is handed out, so that each has its share [pure].

A new app, or a batch of a million workunits, must not keep others waiting: among results of equal
priority, the apps are served in proportion to their weights, whatever lengths their queues have.

Theory of operation.  Nothing is remembered between calls, so that any number of web processes may
hand out work.  The apps lie on a circle, each on an arc as long as its weight.  A lot says where
the first result is taken; every further one lies a golden section further round, which spreads
even a few of them as evenly as can be.  An app whose lane is empty leaves the circle to the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

_GOLDEN: Final = (5**0.5 - 1) / 2


def interleave(
    lanes: Mapping[int, Sequence[T]], weights: Mapping[int, float], draw: float
) -> list[T]:
    """All items of the lanes (by app) in the order in which they should be handed out.

    The order within a lane is kept.  `draw` is this call's lot in [0, 1), another one each time.
    A weight that is missing counts as 1; an app of weight 0 is served when no other has anything
    left.  Whatever has a higher priority goes before: call this for each priority by itself.
    """
    waiting = {app: list(reversed(items)) for app, items in sorted(lanes.items()) if items}
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
    """The app on whose arc the point of the circle lies; without weights all arcs are equal."""
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
