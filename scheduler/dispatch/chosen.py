"""What hosts of one batch have chosen already, and what is left for the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice

from scheduler.dispatch.candidates import LaneKey
from scheduler.hosts.facts import AppFacts, Candidate, HostFacts


class Chosen:
    """What hosts of the batch have chosen already: it is not offered to those after them."""

    def __init__(self) -> None:
        self._by_host: dict[int, list[Candidate]] = {}
        self._results: set[int] = set()
        self._workunits: dict[int, Counter[int]] = {}

    def left_for(
        self,
        host: HostFacts,
        each: Mapping[LaneKey | None, Mapping[int, Candidate]],
        apps: Mapping[int, AppFacts],
        most: int | None,
    ) -> list[Candidate]:
        """Of what a host found, lane by lane: the first `most` of each that nobody else chose."""
        mine = {one.result_id for one in self._by_host.get(host.id, ())}
        others = self._results - mine if mine else self._results
        apart = self._kept_apart(host)
        left: dict[int, Candidate] = {}
        for found in each.values():
            free = (
                one
                for i, one in found.items()
                if i not in others
                and not (
                    apart
                    and one.workunit_id in apart
                    and apps[one.app_id].one_result_per == "account"
                )
            )
            left |= {one.result_id: one for one in islice(free, most)}
        return list(left.values()) if len(each) == 1 else sorted(left.values(), key=_place)

    def _kept_apart(self, host: HostFacts) -> set[int]:
        """The workunits of which another host of the same account has chosen a result."""
        chosen = self._workunits.get(host.account_id)
        if not chosen:
            return set()
        mine = Counter(one.workunit_id for one in self._by_host.get(host.id, ()))
        return set(chosen - mine)

    def note(self, host: HostFacts, chosen: list[Candidate]) -> None:
        """Note what a host has chosen by now, instead of what it had chosen before."""
        account = self._workunits.setdefault(host.account_id, Counter())
        before = self._by_host.get(host.id, ())
        self._results.difference_update([one.result_id for one in before])
        account.subtract([one.workunit_id for one in before])
        self._by_host[host.id] = chosen
        self._results.update([one.result_id for one in chosen])
        account.update([one.workunit_id for one in chosen])


def _place(one: Candidate) -> tuple[int, int, int]:
    return -one.priority, one.workunit_id, one.result_id
