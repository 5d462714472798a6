"""The queues of the results that a claim wants, and the slots that it locked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from scheduler.dispatch.rules.allotment import Allotted
from scheduler.dispatch.search import Search
from scheduler.queues import slots
from scheduler.queues.facts import QueueFacts


@dataclass(slots=True)
class QueueClaims:
    """The queue of each wanted workunit in a queue, and the ids of locked slots by queue.

    Only queues with a limit have entries in `free`; an entry is empty if no result of the queue is
    chosen, or no slot is free.  `chosen` has the workunit of each chosen result of these queues, in
    the order of the queue.  `max_new` is the rest of the ramp limit of queues that have one, after
    the results that the batch of RPCs has already sent.
    """

    queue_of: dict[int, int] = field(default_factory=dict)
    chosen: dict[int, list[int]] = field(default_factory=dict)
    free: dict[int, list[int]] = field(default_factory=dict)
    max_new: dict[int, int] = field(default_factory=dict)

    @property
    def queue_ids(self) -> list[int]:
        return sorted(set(self.queue_of.values()))

    def affordable(
        self, chosen: Sequence[int], spare: Sequence[int]
    ) -> tuple[list[int], list[int]]:
        """Return the chosen and spare workunits for which there are slots, in their order.

        Slots come before workunits, so that each claim with a slot gets the first workunit that no
        other claim with a slot holds.
        """
        if not self.free:
            return list(chosen), list(spare)
        dropped: set[int] = set()
        for queue_id, slot_ids in self.free.items():
            workunit_ids = self.chosen.get(queue_id, [])
            dropped |= set(workunit_ids[len(slot_ids) :]) - set(workunit_ids[: len(slot_ids)])
        return (
            [id_ for id_ in chosen if id_ not in dropped],
            [id_ for id_ in spare if self.free.get(self.queue_of.get(id_, 0), True)],
        )

    def with_slots(self, allotted: Sequence[Allotted]) -> tuple[list[Allotted], dict[int, int]]:
        """Return the results within the limits of their queues, and the result ids by slot id."""
        if not (self.free or self.max_new):
            return list(allotted), {}
        left = {queue_id: list(slot_ids) for queue_id, slot_ids in self.free.items()}
        sent: Counter[int] = Counter()
        kept, result_by_slot = [], {}
        for each in allotted:
            queue_id = each.assignment.candidate.queue_id
            slot_ids = left.get(queue_id)
            if slot_ids == [] or sent[queue_id] >= self.max_new.get(queue_id, inf):
                continue
            if slot_ids is not None:
                result_by_slot[slot_ids.pop(0)] = each.result_id
            sent[queue_id] += bool(queue_id)
            kept.append(each)
        return kept, result_by_slot


def lock(searches: Sequence[Search]) -> QueueClaims:
    """Lock a free slot for each chosen result of a queue with a limit, as far as there are any.

    Runs no statement if no chosen result is in a queue with a limit.
    """
    queues = searches[0].queues if searches else {}
    if not queues:
        return QueueClaims()
    queue_of = {
        assignment.candidate.workunit_id: assignment.candidate.queue_id
        for search in searches
        for assignments in search.feasible.values()
        for assignment in assignments
        if assignment.candidate.queue_id
    }
    chosen = _chosen_of_capped(searches, queues)
    wanted = {queue_id: len(workunit_ids) for queue_id, workunit_ids in chosen.items()}
    locked = slots.lock_free(wanted, queues) if wanted else {}
    for search in searches:
        # If the host receives nothing, the next search does not choose from these queues again.
        search.free_slots |= {queue_id: len(slot_ids) for queue_id, slot_ids in locked.items()}
    # A spare result of another queue with a limit has no slot, so it must not be sent.
    free: dict[int, list[int]] = {id_: [] for id_ in queue_of.values() if queues[id_].is_capped}
    free |= locked
    sent = searches[0].sent_by_queue
    max_new = {
        queue_id: most - sent[queue_id]
        for queue_id in queue_of.values()
        if (most := queues[queue_id].max_new_per_claim) is not None
    }
    return QueueClaims(queue_of, chosen, free, max_new)


def _chosen_of_capped(
    searches: Iterable[Search], queues: Mapping[int, QueueFacts]
) -> dict[int, list[int]]:
    """Return the workunits of chosen results of queues with a limit, in the queue's order."""
    chosen: dict[int, list[int]] = {}
    for search in searches:
        for assignment in search.chosen:
            queue_id = assignment.candidate.queue_id
            if queue_id and queues[queue_id].is_capped:
                chosen.setdefault(queue_id, []).append(assignment.candidate.workunit_id)
    return chosen
