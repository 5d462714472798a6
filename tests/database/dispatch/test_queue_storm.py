"""Thousands of claims by sixteen hosts at a queue with a limit."""

from __future__ import annotations

from time import perf_counter

import pytest

from tests.database.dispatch.test_queues_in_claims import (
    Claim,
    a_queue,
    clients,
    most_in_progress,
    passed_over,
    storm,
    violations,
)
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.lengthy
def test_thousands_of_claims_by_sixteen_hosts_never_exceed_a_limit_and_keep_the_order() -> None:
    print(storm_of(2000))  # noqa: T201  the figures of the run


def storm_of(claim_count: int) -> str:
    """Let sixteen hosts make this number of claims with work; return the figures of the run.

    No claim exceeds the limit of the queue, by the order of the moves in the ledger, and none
    passes over an older workunit.
    """
    queue = a_queue(max_in_progress=8, order="fifo")
    workunits(an_app(daily_quota=0), claim_count + 100, queue=queue)
    began = perf_counter()
    log = storm(clients(16), queue=queue, claims=claim_count, seconds=1)
    elapsed = perf_counter() - began
    skipped = passed_over(log.claims)
    most = most_in_progress(queue)
    assert len(log.claims) >= claim_count
    assert most == 8
    assert max(log.in_progress) == 8
    assert not skipped
    assert not violations()
    return (
        f"{len(log.claims)} claims by 16 hosts in {elapsed:.0f} s, at most {most} of 8 in progress "
        f"by the ledger, {len(skipped)} passed over, "
        f"{_rate(log.claims[: claim_count // 10]):.0f} claims/s at the beginning, "
        f"{_rate(log.claims[-claim_count // 10 :]):.0f} at the end"
    )


def _rate(claims: list[Claim]) -> float:
    """Return the number of claims per second."""
    return len(claims) / (claims[-1].ended - claims[0].ended)
