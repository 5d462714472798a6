"""A maximum is divided among queues by group, need and results in progress."""

from __future__ import annotations

import random

import pytest

from scheduler.queues.rules.divided_limits import Demand, divide, limits


@pytest.mark.parametrize(
    ("demands", "most", "expected"),
    [
        # One group shares equally.
        ([(1, 0, 0, 99), (2, 0, 0, 99)], 10, {1: 5, 2: 5}),
        # An odd one goes to the older queue.
        ([(1, 0, 0, 99), (2, 0, 0, 99)], 5, {1: 3, 2: 2}),
        # A queue gets no more than it needs; the others get the rest.
        ([(1, 0, 0, 2), (2, 0, 0, 99), (3, 0, 0, 99)], 10, {1: 2, 2: 4, 3: 4}),
        # A group gets what the groups before it do not need.
        ([(1, 1, 0, 99), (2, 0, 0, 3)], 10, {1: 7, 2: 3}),
        ([(1, 1, 0, 99), (2, 0, 0, 99)], 10, {1: 0, 2: 10}),
        # The part that no queue needs goes to the first group.
        ([(1, 0, 0, 0), (2, 0, 0, 1), (3, 1, 0, 2)], 9, {1: 3, 2: 4, 3: 2}),
        # Results in progress count as need, also without work to send.
        ([(1, 0, 6, 0), (2, 1, 0, 99)], 10, {1: 6, 2: 4}),
        # A queue above its share sends nothing more; the first group waits for its results.
        ([(1, 0, 0, 99), (2, 1, 10, 99)], 10, {1: 0, 2: 0}),
        ([(1, 0, 0, 99), (2, 1, 7, 99)], 10, {1: 3, 2: 0}),
        ([(1, 0, 3, 99), (2, 1, 7, 99)], 10, {1: 3, 2: 0}),
        ([(1, 0, 3, 99), (2, 1, 6, 99)], 10, {1: 4, 2: 0}),
        # A lower maximum interrupts nothing.
        ([(1, 0, 9, 99)], 4, {1: 4}),
        ([(1, 0, 9, 99)], 0, {1: 0}),
        ([], 5, {}),
    ],
)
def test_limits(
    demands: list[tuple[int, int, int, int]], most: int, expected: dict[int, int]
) -> None:
    assert limits([Demand(*each) for each in demands], max_in_progress=most) == expected


@pytest.mark.parametrize("seed", range(300))
def test_the_limits_never_permit_more_than_the_maximum(seed: int) -> None:
    chance = random.Random(seed)
    most = chance.randrange(30)
    demands = [
        Demand(id_, chance.randrange(3), chance.randrange(8), chance.randrange(20))
        for id_ in range(1, chance.randrange(2, 6))
    ]
    given = limits(demands, max_in_progress=most)
    running = sum(demand.in_progress for demand in demands)
    permitted = sum(max(given[demand.queue_id], demand.in_progress) for demand in demands)
    assert permitted <= max(most, running)
    assert min(given.values()) >= 0


@pytest.mark.parametrize("seed", range(50))
def test_repeated_balancing_serves_the_first_group_first(seed: int) -> None:
    """Results end at random; each queue sends up to its limit between two passes."""
    chance = random.Random(seed)
    running = {1: 0, 2: 10}
    for _ in range(60):
        demands = [Demand(id_, id_ - 1, count, 1000) for id_, count in running.items()]
        given = limits(demands, max_in_progress=10)
        for id_, count in running.items():
            running[id_] = max(count, given[id_]) - chance.randrange(0, min(3, count) + 1)
        assert sum(running.values()) <= 10
    assert running[2] == 0
    assert running[1] >= 5


def test_division_without_receivers_gives_nothing() -> None:
    assert divide(5, {}) == {}
    assert divide(5, {1: 0}) == {1: 0}
