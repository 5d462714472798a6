"""Tracks the candidates that are chosen for the hosts of one batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice

from scheduler.dispatch.candidates import StreamKey
from scheduler.dispatch.facts import AppFacts, Candidate, HostFacts


class Chosen:
    """The candidates chosen for each host of a batch; later hosts are not offered them."""

    def __init__(self) -> None:
        self._by_host: dict[int, list[Candidate]] = {}
        self._results: set[int] = set()
        self._workunits: dict[int, Counter[int]] = {}
        self._queues: Counter[int] = Counter()

    def left_for(
        self,
        host: HostFacts,
        candidates_by_stream: Mapping[StreamKey | None, Mapping[int, Candidate]],
        apps: Mapping[int, AppFacts],
        max_per_stream: int | None,
    ) -> list[Candidate]:
        """Return the candidates of a host that are not chosen for another host of the batch.

        `candidates_by_stream` holds the candidates read for the host.  At most `max_per_stream`
        candidates of each stream are returned; None means all.  For apps with one result per
        account, other results of a workunit chosen for the same account are left out, too.
        """
        own_ids = {candidate.result_id for candidate in self._by_host.get(host.id, ())}
        taken_ids = self._results - own_ids if own_ids else self._results
        excluded_workunits = self._excluded_workunits(host)
        left: dict[int, Candidate] = {}
        for candidates in candidates_by_stream.values():
            free = (
                candidate
                for result_id, candidate in candidates.items()
                if result_id not in taken_ids
                and not (
                    excluded_workunits
                    and candidate.workunit_id in excluded_workunits
                    and apps[candidate.app_id].one_result_per == "account"
                )
            )
            left |= {candidate.result_id: candidate for candidate in islice(free, max_per_stream)}
        if len(candidates_by_stream) == 1:
            return list(left.values())
        return sorted(left.values(), key=lambda c: (-c.priority, c.workunit_id, c.result_id))

    def _excluded_workunits(self, host: HostFacts) -> set[int]:
        """Return the ids of workunits chosen for another host of the same account."""
        chosen = self._workunits.get(host.account_id)
        if not chosen:
            return set()
        own = Counter(candidate.workunit_id for candidate in self._by_host.get(host.id, ()))
        return set(chosen - own)

    def sent_to_others(self, host: HostFacts) -> Counter[int]:
        """Return the number of candidates chosen for other hosts, by queue."""
        own = Counter(c.queue_id for c in self._by_host.get(host.id, ()) if c.queue_id)
        return self._queues - own

    def note(self, host: HostFacts, chosen: list[Candidate]) -> None:
        """Replace the candidates recorded for a host."""
        account = self._workunits.setdefault(host.account_id, Counter())
        before = self._by_host.get(host.id, ())
        self._results.difference_update([candidate.result_id for candidate in before])
        account.subtract([candidate.workunit_id for candidate in before])
        self._by_host[host.id] = chosen
        self._results.update([candidate.result_id for candidate in chosen])
        account.update([candidate.workunit_id for candidate in chosen])
        for candidates, number in ((before, -1), (chosen, 1)):
            for candidate in candidates:
                if candidate.queue_id:
                    self._queues[candidate.queue_id] += number
