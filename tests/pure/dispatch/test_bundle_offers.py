"""The number of task lists that meet a request of a host."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from scheduler.dispatch.facts import Assignment, WorkRequest
from scheduler.dispatch.rules import bundle_offers
from scheduler.dispatch.rules.bundle_offers import Offer
from tests.pure.dispatch.test_selection import a_candidate, a_version

GPU = {"device": "nvidia", "device_count": 1.0, "avg_ncpus": 0.1}


def a_list(*members: dict[str, Any], version: dict[str, Any] | None = None) -> Offer:
    """Return an offer of a list that runs for an hour, with these facts of its members."""
    return Offer(
        bundle_id=1,
        assignments=tuple(
            Assignment(
                candidate=a_candidate(**facts),
                version=a_version(**(version or {})),
                flops=1e9,
                seconds=3600.0 / len(members),
                delay=timedelta(hours=3),
            )
            for facts in members
        ),
        seconds=3600.0,
    )


@pytest.mark.parametrize(
    ("offer", "request_", "expected"),
    [
        (a_list({}, {}), WorkRequest(instances=2), 2),
        (a_list({}, {}), WorkRequest(seconds=7200), 2),
        (a_list({}, {"requested_cpus": 4}), WorkRequest(instances=4), 1),
        (a_list({"requested_cpus": 2}), WorkRequest(seconds=7200), 1),
        (a_list({}, version={"avg_ncpus": 2}), WorkRequest(instances=4), 2),
        # A request for GPUs counts GPUs, not the small share of a processor beside each.
        (a_list({}, version=GPU), WorkRequest(device="nvidia", instances=2), 2),
        (
            a_list({"requested_gpus": 2}, version=GPU),
            WorkRequest(device="nvidia", instances=2),
            1,
        ),
        (a_list({}), WorkRequest(), 0),
    ],
)
def test_lists_are_counted_with_the_processors_or_gpus_of_their_largest_member(
    offer: Offer, request_: WorkRequest, expected: int
) -> None:
    assert bundle_offers.needed([offer] * 9, request_) == expected
