"""A value is read in the background, by one thread at a time, and cached."""

from __future__ import annotations

import threading
import time

import pytest

from project.monitoring import refresher
from project.monitoring.refresher import Refresher


class Source:
    """Returns 1, 2, ... while its gate is open, and counts the reads that have begun."""

    def __init__(self):
        self.gate = threading.Event()
        self.gate.set()
        self.begun = 0
        self.at_once = 0
        self.most_at_once = 0

    def read(self):
        self.begun += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        number = self.begun
        self.gate.wait(20)
        self.at_once -= 1
        return number


@pytest.fixture
def source():
    source = Source()
    yield source
    source.gate.set()


@pytest.fixture
def clock(monkeypatch):
    times = [100.0]
    monkeypatch.setattr(refresher, "monotonic", lambda: times[0])
    return times


def test_a_value_is_kept_and_then_read_again(source, clock):
    cached = Refresher(source.read, keep_seconds=5, timeout_seconds=10)
    assert [cached.get(), cached.get()] == [1, 1]
    clock[0] += 5.1
    assert cached.get() == 2
    assert source.begun == 2


def test_a_read_that_takes_too_long_gives_no_value(source, clock):
    cached = Refresher(source.read, keep_seconds=5, timeout_seconds=0.01)
    source.gate.clear()
    assert cached.get() is None
    assert cached.get() is None
    assert source.begun == 1


def test_callers_get_the_previous_value_while_another_reads(source, clock):
    cached = Refresher(source.read, keep_seconds=5, timeout_seconds=0.01, max_age_seconds=60)
    cached.get()
    source.gate.clear()
    clock[0] += 30
    assert [cached.get(), cached.get()] == [1, 1]
    assert source.begun == 2
    clock[0] += 31
    assert cached.get() is None, "the value is too old"


def test_callers_do_not_wait_for_a_read_that_has_taken_too_long_already(source, clock):
    cached = Refresher(source.read, keep_seconds=5, timeout_seconds=10)
    source.gate.clear()
    first = threading.Thread(target=cached.get)
    first.start()
    while not source.begun:
        time.sleep(0.001)
    clock[0] += 10.1
    began = time.monotonic()
    assert cached.get() is None
    assert time.monotonic() - began < 5
    source.gate.set()
    first.join(20)


def test_many_callers_cause_one_read_at_a_time(source):
    cached = Refresher(source.read, keep_seconds=5, timeout_seconds=20)
    source.gate.clear()
    values = []
    callers = [threading.Thread(target=lambda: values.append(cached.get())) for _ in range(8)]
    for caller in callers:
        caller.start()
    source.gate.set()
    for caller in callers:
        caller.join(20)
    assert values == [1] * 8
    assert (source.begun, source.most_at_once) == (1, 1)


def test_a_read_without_a_value_is_repeated_by_the_next_caller(clock):
    values = iter([None, 7])
    cached = Refresher(lambda: next(values), keep_seconds=5, timeout_seconds=10)
    assert [cached.get(), cached.get()] == [None, 7]


def test_a_thread_that_cannot_be_started_does_not_prevent_later_reads(source, clock, monkeypatch):
    cached = Refresher(source.read, keep_seconds=5, timeout_seconds=0.01, max_age_seconds=60)
    cached.get()
    clock[0] += 30
    with monkeypatch.context() as patch:
        patch.setattr(refresher.threading.Thread, "start", fail_to_start)
        assert cached.get() == 1, "the previous value is young enough"
        clock[0] += 31
        assert cached.get() is None
    assert cached.get() == 2


def fail_to_start(_thread):
    raise RuntimeError("can't start new thread")
