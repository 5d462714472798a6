"""Workunits must fit the queues that they name."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from scheduler.queues.facts import FOREVER
from scheduler.work.submission.facts import NewWorkunit, QueueTarget
from scheduler.work.submission.rules import queueing
from scheduler.work.submission.rules.work_from_dicts import BadDescription, new_workunit

QUEUES = {
    "lane": QueueTarget(id=1, name="lane"),
    "primes": QueueTarget(id=2, name="primes", app="primes"),
    "lab": QueueTarget(id=3, name="lab", trusted=True),
}


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({}, ""),
        ({"queue": "lane"}, ""),
        ({"queue": "primes"}, ""),
        ({"queue": "lan"}, "There is no queue 'lan'."),
        ({"queue": "\0"}, "There is no queue"),
        ({"queue": "lane", "target_host": 7}, "both the queue lane and a target"),
        ({"queue": "lane", "broadcast": True}, "both the queue lane and a target"),
        ({"queue": "lab", "delay_bound": FOREVER}, ""),
        ({"queue": "lane", "delay_bound": FOREVER}, "only trusted queues allow"),
        ({"delay_bound": FOREVER}, "only trusted queues allow"),
    ],
)
def test_workunits_that_do_not_fit_their_queue_are_refused(
    fields: dict[str, Any], fault: str
) -> None:
    faults = queueing.faults([NewWorkunit(**fields)], app="primes", queues=QUEUES)
    assert bool(faults) is bool(fault)
    assert fault in "".join(str(each) for faults_ in faults.values() for each in faults_)


def test_a_queue_of_another_app_is_refused() -> None:
    faults = queueing.faults([NewWorkunit(queue="primes")], app="docking", queues=QUEUES)
    assert "accepts only work of app primes" in str(faults[0][0])


def test_an_infinite_deadline_is_written_as_inf() -> None:
    assert new_workunit({"delay_bound_seconds": "inf"}, from_outside=True).delay_bound == FOREVER
    seconds = timedelta(seconds=5)
    assert new_workunit({"delay_bound_seconds": 5}, from_outside=True).delay_bound == seconds
    with pytest.raises(BadDescription, match="delay_bound_seconds"):
        new_workunit({"delay_bound_seconds": "infinite"}, from_outside=True)
