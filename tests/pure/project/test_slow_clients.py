"""The connections that are closed when slow clients occupy too many threads."""

from __future__ import annotations

import pytest

from project import slow_clients
from project.slow_clients import Counters, Sighting, Transfers, Watch, excess_by_network


class FakeBody:
    def __init__(self, address, began):
        self.address, self.began, self.port = address, began, "8000"


def waiting(speeds, *, since=0.0, quiet=()):
    """Return connections from (address, bytes in ten seconds); `quiet` has seconds by number."""
    found = {}
    for number, (address, nbytes) in enumerate(speeds):
        before = Counters(100, 0, client_sent_last=True, unsent=0, quiet_seconds=0.0)
        first = Sighting(since, before, is_idle=False, window_since=since, window_bytes=100)
        quiet_seconds = dict(quiet).get(number, 0.5)
        now = Counters(
            100 + nbytes, 0, client_sent_last=True, unsent=0, quiet_seconds=quiet_seconds
        )
        found[address, number] = (first, now)
    return found


def test_no_connection_is_closed_while_few_clients_are_slow():
    bodies = Transfers(incoming=True, max_slow=4)
    for _ in range(4):
        bodies.active[FakeBody("127.0.0.9", began=0.0)] = None
    assert Watch(bodies).look(10.0) == 0


def test_excess_is_taken_from_the_network_with_most_slow_transfers():
    assert excess_by_network(["campus"] * 5 + ["attacker"] * 30, 20) == {"attacker": 20}
    assert not excess_by_network(["campus"] * 20, 20)


def test_slowest_transfers_of_a_network_are_closed():
    watch = Watch(Transfers(incoming=True, max_slow=4))
    found = waiting([("a", 90_000), ("a", 10), ("a", 20), ("b", 1)])
    chosen = list(watch._choose(found, slow_clients.Counter({"a": 2}), now=10.0))
    assert chosen == [("a", 1), ("a", 2)]


def test_request_waiting_for_a_thread_is_closed_after_slow_transfers():
    """Its request has arrived, so it sends no bytes; threads serve requests in order of arrival."""
    watch = Watch(Transfers(incoming=True, max_slow=4))
    found = waiting([("a", 0), ("a", 10), ("a", 0), ("a", 20)], quiet={0: 0.6, 2: 9.0})
    chosen = list(watch._choose(found, slow_clients.Counter({"a": 3}), now=10.0))
    assert chosen == [("a", 1), ("a", 3), ("a", 2)]


@pytest.mark.parametrize(("nbytes", "is_cut"), [(2_999, True), (3_000, False)])
def test_transfer_too_slow_for_stock_clients_is_closed(nbytes, is_cut):
    watch = Watch(Transfers(incoming=True, max_slow=4))
    found = waiting([("a", nbytes)])
    chosen = list(watch._choose(found, slow_clients.Counter(), now=slow_clients.STALL_SECONDS))
    assert bool(chosen) is is_cut
