"""Call batches in threads: the leader, the order of the queue and its limit."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import monotonic

import pytest

from scheduler.boinc.call_batches import GATHER_SECONDS, RECENT_SECONDS, Batches, QueueFull


class Answers:
    """Returns each call as its own answer; the first batch waits until `go` is set."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, calls: Sequence[int]) -> list[int | Exception]:
        self.batches.append(list(calls))
        if len(self.batches) == 1:
            self.begun.set()
            assert self.go.wait(10)
        return [ValueError(call) if call < 0 else call for call in calls]


def asked_at_once(calls: Sequence[int], *, max_batch: int = 32, max_queued: int = 100):
    """Make each call in a thread, the first alone; return the answers and the batches."""
    answers = Answers()
    batches = Batches(answers, max_batch=max_batch)
    got: dict[int, object] = {}

    def ask(call: int) -> None:
        try:
            got[call] = batches.answer(call, max_queued=max_queued)
        except (ValueError, QueueFull) as error:
            got[call] = type(error)

    threads = [threading.Thread(target=ask, args=(call,)) for call in calls]
    threads[0].start()
    assert answers.begun.wait(10)
    for number, thread in enumerate(threads[1:], start=1):
        thread.start()
        while len(batches._queue) < min(number, max_queued) and thread.is_alive():
            pass
    answers.go.set()
    for thread in threads:
        thread.join(10)
    return got, answers.batches


def test_single_call_is_a_batch_of_one() -> None:
    batches = Batches(lambda calls: [call + 1 for call in calls], max_batch=32)
    assert [batches.answer(1, max_queued=1), batches.answer(2, max_queued=1)] == [2, 3]


def test_calls_that_queue_meanwhile_form_one_batch_in_order() -> None:
    got, batches = asked_at_once([1, 2, 3, 4])
    assert batches == [[1], [2, 3, 4]]
    assert got == {1: 1, 2: 2, 3: 3, 4: 4}


def test_calls_above_the_batch_limit_form_the_next_batch() -> None:
    got, batches = asked_at_once(range(8), max_batch=3)
    assert batches == [[0], [1, 2, 3], [4, 5, 6], [7]]
    assert len(got) == 8


def test_exception_of_one_call_is_raised_in_that_call() -> None:
    got, _ = asked_at_once([1, -2, 3])
    assert got == {1: 1, -2: ValueError, 3: 3}


def test_calls_above_the_queue_limit_are_refused_and_others_answered() -> None:
    got, _ = asked_at_once(range(6), max_queued=2)
    assert [call for call in got if got[call] is QueueFull] == [3, 4, 5]
    assert {got[call] for call in (0, 1, 2)} == {0, 1, 2}


def test_error_of_a_whole_batch_does_not_block_the_next_leader() -> None:
    def fail(calls: Sequence[int]) -> list[int | Exception]:
        raise KeyError(calls[0])

    batches = Batches(fail, max_batch=32)
    for call in (1, 2):
        with pytest.raises(KeyError):
            batches.answer(call, max_queued=1)


def test_leader_waits_for_further_calls_only_after_a_recent_batch() -> None:
    batches = Batches(list, max_batch=32)
    batches.answer(1, max_queued=1)
    assert batches._busy_until == 0
    batches._busy_until = monotonic() + RECENT_SECONDS
    began = monotonic()
    batches.answer(2, max_queued=1)
    assert monotonic() - began >= GATHER_SECONDS
    assert batches._busy_until == 0
