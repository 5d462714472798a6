"""Decides which dependencies are allowed, and finds cycles [pure].

Source: the rules of Eve's continuations.  A dependency can be added only while the child waits: a
child that was released may already be running on a host.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scheduler.lifecycle import ReleaseState

#: The name or the id of a workunit.
WorkunitReference = str | int
#: An edge of the graph: the ids of the parent and of the child, which waits for the parent.
Edge = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LinkedWorkunit:
    """The facts about a workunit that decide whether it can get a dependency.

    `was_sent` is true if the workunit has results, so that it was released before.
    """

    id: int
    name: str
    release_state: int
    has_answer: bool
    has_failed: bool
    was_sent: bool
    is_listed: bool = False
    is_held_by_staff: bool = False


def refusal_of_parent(workunit: LinkedWorkunit) -> str:
    """Return the reason why no workunit can wait for this one, or an empty string.

    A workunit with an answer is allowed: the dependency is met at once.
    """
    return f"{workunit.name} has failed" if workunit.has_failed else ""


def refusal_of_child(workunit: LinkedWorkunit) -> str:
    """Return the reason why this workunit cannot wait for another one, or an empty string.

    A child must be inactive, or held since its submission.  A dependency ends a hold, so it cannot
    be added to a workunit that staff hold.
    """
    if workunit.has_failed:
        return f"{workunit.name} has failed"
    if workunit.has_answer:
        return f"{workunit.name} has an answer"
    if workunit.is_listed:
        return f"{workunit.name} is in a task list, which is sent as a unit"
    is_held = workunit.release_state == ReleaseState.HELD and not workunit.was_sent
    if is_held and workunit.is_held_by_staff:
        return f"{workunit.name} is held by staff"
    if workunit.release_state == ReleaseState.INACTIVE or is_held:
        return ""
    return f"{workunit.name} was released"


def find_cycle(edges: Iterable[Edge]) -> tuple[int, ...]:
    """Return the ids along a cycle of the graph, each before its child; () if there is no cycle.

    The time is proportional to the number of edges.
    """
    children: defaultdict[int, list[int]] = defaultdict(list)
    for parent, child in edges:
        children[parent].append(child)
    done: set[int] = set()
    for start in list(children):
        if start not in done and (cycle := _cycle_from(start, children, done)):
            return cycle
    return ()


def _cycle_from(
    start: int, children: defaultdict[int, list[int]], done: set[int]
) -> tuple[int, ...]:
    """Search depth first from `start`; add the ids from which no cycle can be reached to `done`."""
    # A dict keeps the order of the path, and finds an id on it in constant time.
    path: dict[int, Iterator[int]] = {start: iter(children[start])}
    while path:
        current = next(reversed(path))
        child = next(path[current], None)
        if child is None:
            done.add(current)
            del path[current]
        elif child in path:
            ids = list(path)
            return tuple(ids[ids.index(child) :])
        elif child not in done:
            path[child] = iter(children.get(child, ()))
    return ()
