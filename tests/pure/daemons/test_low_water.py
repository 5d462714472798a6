"""A queue is read from its low-water mark, and occasionally from its head."""

from __future__ import annotations

import pytest

from daemons import low_water
from scheduler.sql.low_water import LowWaterMark


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(low_water, "monotonic", made)
    monkeypatch.setattr(low_water, "REST", 20)
    return made


def looking(clock, *, seconds=0.1, found=True):
    """Return a function that reads a queue in `seconds`, and the list of its positions."""
    places = []

    def look(place):
        places.append(place)
        clock.at += seconds
        return [(place,)] if found else []

    return look, places


def test_first_read_starts_at_the_head_and_the_next_at_the_low_water_mark(clock):
    queue = LowWaterMark(0)
    look, places = looking(clock)
    low_water.read(queue, look)
    queue.mark = 7
    assert low_water.read(queue, look) == [(7,)]
    assert places == [0, 7]


def test_queue_is_read_from_the_head_after_twenty_times_the_duration_of_that_read(clock):
    queue = LowWaterMark(0)
    look, places = looking(clock)
    low_water.read(queue, look)
    queue.mark = 7
    clock.at += 1.8
    low_water.read(queue, look)
    clock.at += 0.2
    low_water.read(queue, look)
    assert places == [0, 7, 0]


def test_empty_queue_is_reported_only_after_a_read_from_the_head(clock):
    queue = LowWaterMark(0)
    look, places = looking(clock, found=False)
    low_water.read(queue, look)
    queue.mark = 7
    assert low_water.read(queue, look) == []
    assert places == [0, 7, 0]
