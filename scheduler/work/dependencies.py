"""Adds and removes dependencies: a child waits for the answers of its parents.

Theory of operation.  An edge joins a parent and a child of the same submitter.  A change of edges
locks the graph of the submitter, because two changes of different edges can close a cycle together.
Then it locks the workunits in ascending id, reads their states in the next statement, and judges
them (`rules.dependency_graphs`).  The counts of the children are always computed from the edges, so
that no event is counted twice or missed.

When a workunit gets an answer or fails, the transitioner inserts wake-ups for its children, and
recounts each child when it looks at the child, under the child's lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from scheduler import wakeups
from scheduler.lifecycle import Actor, Axis, Because
from scheduler.models import Account, Dependency, Workunit
from scheduler.sql import array, execute, fetch, fetch_into
from scheduler.work.rules import dependency_graphs
from scheduler.work.rules.dependency_graphs import Edge, LinkedWorkunit, WorkunitReference

#: Maximum number of edges of a submission, which are in memory: 20 seconds and 150 MB.
MAX_EDGES = 200_000
#: Maximum number of workunits that a message names.
_MAX_SHOWN = 10


class DependencyRefused(ValueError):
    """A dependency is not allowed in the current state. Hint: see the message."""


class UnknownWorkunits(DependencyRefused):
    """Workunits of a dependency do not exist, or belong to another submitter.

    Hint: check the names; the purger moves finished workunits to the archive.
    """

    def __init__(self, missing: Sequence[WorkunitReference]) -> None:
        self.missing = tuple(missing)
        super().__init__(
            f"There is no workunit {_listed(_shown(reference) for reference in missing)} of this "
            "submitter. Hint: check the spelling; purged workunits are in the archive."
        )


class TooManyDependencies(DependencyRefused):
    """A submission has too many dependencies. Hint: see the message."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The numbers of edges that were changed, and of edges that already existed.

    `continuations` are the ids of all children of the workunit after the change, ascending.
    """

    changed: int
    already: int
    continuations: tuple[int, ...]


def lock_graph(owner: Account | None) -> None:
    """Lock the graph of a submitter, or of workunits without a batch, until the transaction ends.

    Call it before workunits are locked.
    """
    fetch("work/lock_dependency_graph", {"account_id": 0 if owner is None else owner.pk})


def connect(
    edges: Collection[tuple[WorkunitReference, WorkunitReference]],
    owner: Account | None,
    *,
    now: datetime,
) -> tuple[int, int]:
    """Insert edges in the caller's transaction, which has locked the graph.

    Returns the numbers of inserted and of existing edges.  A held child becomes inactive.  Raises
    `UnknownWorkunits`, and `DependencyRefused` for a parent that has failed, a child that does not
    wait, and a cycle.
    """
    workunits = _locked({reference for edge in edges for reference in edge}, owner)
    pairs = sorted({(workunits[parent].id, workunits[child].id) for parent, child in edges})
    by_id = {workunit.id: workunit for workunit in workunits.values()}
    new = _require_allowed(pairs, by_id)
    _require_no_cycle(new, by_id)
    params = {
        "parent_ids": array(parent for parent, _ in new),
        "child_ids": array(child for _, child in new),
        "now": now,
        "axis": Axis.RELEASE.value,
        "because": Because.DEPENDENCY_ADDED.value,
        "by": Actor.SUBMITTER.value,
    }
    execute("work/insert_dependencies", params)
    _recount({child for _, child in new}, now=now)
    return len(new), len(pairs) - len(new)


def add_continuations(
    workunit_id: int, continuations: Collection[WorkunitReference], *, now: datetime
) -> Changed:
    """Make workunits of the same submitter wait for this one; idempotent.

    Raises Workunit.DoesNotExist, `UnknownWorkunits` and `DependencyRefused`.
    """
    with transaction.atomic():
        owner = _owner(workunit_id)
        lock_graph(owner)
        edges = {(workunit_id, child) for child in continuations}
        changed, already = connect(edges, owner, now=now)
        return Changed(changed, already, _children(workunit_id))


def remove_continuations(
    workunit_id: int, continuations: Collection[WorkunitReference], *, now: datetime
) -> Changed:
    """Remove edges from this workunit to its children; children without unmet edges are released.

    A child that has ended or was released is not changed.  Raises Workunit.DoesNotExist,
    `UnknownWorkunits`, and `DependencyRefused` for a workunit that is not a continuation.
    """
    with transaction.atomic():
        owner = _owner(workunit_id)
        lock_graph(owner)
        workunits = _locked({workunit_id, *continuations}, owner)
        children = {workunits[reference].id for reference in continuations}
        if strangers := sorted(children - set(_children(workunit_id))):
            names = {workunit.id: workunit.name for workunit in workunits.values()}
            parent = names[workunit_id]
            raise DependencyRefused(
                f"{_listed(names[id_] for id_ in strangers)} does not wait for {parent}. "
                f"Hint: the continuations of {parent} list the workunits that wait for it."
            )
        params = {"parent_id": workunit_id, "child_ids": array(sorted(children)), "now": now}
        removed = execute("work/delete_dependencies", params)
        _recount(children, now=now)
        return Changed(removed, 0, _children(workunit_id))


def copy_to_retries(failed_ids: Sequence[int], *, now: datetime) -> None:
    """Copy the edges of failed workunits to the workunits that retry them, in the transaction.

    The retry of a child waits for the newest retry of a parent, if the parent was retried.  The
    caller has locked the graph, the failed workunits, and the parents with their retries.
    """
    fetch("work/copy_dependencies_to_retries", {"ids": array(failed_ids)})
    failed = Workunit.objects.filter(pk__in=failed_ids)
    retries = failed.values_list("retried_as", flat=True)
    _recount([id_ for id_ in retries if id_ is not None], now=now)


def _owner(workunit_id: int) -> Account | None:
    batch = Workunit.objects.select_related("batch__submitter").get(pk=workunit_id).batch
    return None if batch is None else batch.submitter


def _children(workunit_id: int) -> tuple[int, ...]:
    edges = Dependency.objects.filter(parent_id=workunit_id).order_by("child_id")
    return tuple(edges.values_list("child_id", flat=True))


def _locked(
    references: Collection[WorkunitReference], owner: Account | None
) -> dict[WorkunitReference, LinkedWorkunit]:
    """Lock the owner's workunits and return their facts by reference; raises `UnknownWorkunits`."""
    params = {
        "ids": array(sorted(ref for ref in references if isinstance(ref, int))),
        "names": sorted(ref for ref in references if isinstance(ref, str)),
        "account_id": None if owner is None else owner.pk,
    }
    ids = [row["id"] for row in fetch("work/lock_linked_workunits", params)]
    # A separate statement: only a snapshot taken after the locks sees the current states.
    rows = fetch_into(LinkedWorkunit, "work/read_linked_workunits", {"ids": array(ids)})
    linked: dict[WorkunitReference, LinkedWorkunit] = {}
    for workunit in rows:
        linked[workunit.id] = linked[workunit.name] = workunit
    if missing := sorted((ref for ref in references if ref not in linked), key=str):
        raise UnknownWorkunits(missing)
    return {reference: linked[reference] for reference in references}


def _require_allowed(
    pairs: Sequence[Edge], workunits: Mapping[int, LinkedWorkunit]
) -> Sequence[Edge]:
    """Return the pairs that are not edges yet; raises `DependencyRefused` if one is not allowed."""
    existing = {
        (edge.parent_id, edge.child_id)
        for edge in Dependency.objects.filter(
            parent_id__in={parent for parent, _ in pairs},
            child_id__in={child for _, child in pairs},
        )
    }
    new = [pair for pair in pairs if pair not in existing]
    refusals = dict.fromkeys(
        refusal
        for parent, child in new
        for refusal in (
            dependency_graphs.refusal_of_parent(workunits[parent]),
            dependency_graphs.refusal_of_child(workunits[child]),
        )
        if refusal
    )
    if refusals:
        raise DependencyRefused(
            f"The dependencies cannot be added: {_listed(refusals)}. Hint: a workunit can wait for "
            "others only until it is released, and only for workunits that have not failed."
        )
    return new


def _require_no_cycle(pairs: Sequence[Edge], workunits: Mapping[int, LinkedWorkunit]) -> None:
    for parent, child in pairs:
        if parent == child:
            name = workunits[parent].name
            msg = f"Workunit {name} cannot wait for itself. Hint: name another workunit."
            raise DependencyRefused(msg)
    ends = {
        "parent_ids": array(sorted({parent for parent, _ in pairs})),
        "child_ids": array(sorted({child for _, child in pairs})),
    }
    below = [(row["parent_id"], row["child_id"]) for row in fetch("work/read_descendants", ends)]
    if cycle := dependency_graphs.find_cycle([*pairs, *below]):
        names = {id_: workunit.name for id_, workunit in workunits.items()}
        rest = Workunit.objects.filter(pk__in=[id_ for id_ in cycle if id_ not in names])
        names |= dict(rest.values_list("pk", "name"))
        shown = [names.get(id_, f"#{id_}") for id_ in cycle]
        if len(shown) > _MAX_SHOWN:
            shown[_MAX_SHOWN - 1 : -1] = ["..."]
        raise DependencyRefused(
            f"The dependencies form a cycle of {len(cycle)} workunits: "
            f"{' -> '.join([*shown, shown[0]])}. "
            "Hint: remove one of these dependencies; an arrow points to the workunit that waits."
        )


def _recount(child_ids: Collection[int], *, now: datetime) -> None:
    """Compute the counts of locked children from their edges, and wake the transitioner."""
    fetch("work/recount_dependencies", {"ids": array(sorted(child_ids)), "now": now})
    wakeups.after_commit("transitioner")


def _shown(reference: WorkunitReference) -> str:
    return f"#{reference}" if isinstance(reference, int) else repr(reference)[1:-1]


def _listed(texts: Iterable[str]) -> str:
    shown = list(texts)
    return ", ".join(shown[:_MAX_SHOWN]) + ", ..." * (len(shown) > _MAX_SHOWN)
