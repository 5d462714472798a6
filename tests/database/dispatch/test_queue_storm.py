"""Thousands of claims by sixteen hosts at a queue with a limit."""

from __future__ import annotations

import os
from time import perf_counter

import pytest

from tests.database.dispatch.test_queues_in_claims import (
    Claim,
    a_queue,
    clients,
    passed_over,
    storm,
    violations,
)
from tests.work import an_app, workunits

#: The number of claims with work; `QUEUE_CLAIMS` sets another one.
CLAIMS = int(os.environ.get("QUEUE_CLAIMS", "2000"))

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.lengthy
def test_thousands_of_claims_by_sixteen_hosts_never_exceed_a_limit_and_keep_the_order() -> None:
    queue = a_queue(max_in_progress=8, order="fifo")
    workunits(an_app(daily_quota=0), CLAIMS + 100, queue=queue)
    began = perf_counter()
    log = storm(clients(16), queue=queue, claims=CLAIMS, seconds=1)
    elapsed = perf_counter() - began
    skipped = passed_over(log.claims)
    print(  # noqa: T201  the figures of the run
        f"{len(log.claims)} claims by 16 hosts in {elapsed:.0f} s, at most {max(log.in_progress)} "
        f"of 8 in progress in {len(log.in_progress)} looks, {len(skipped)} passed over, "
        f"{_rate(log.claims[: CLAIMS // 10]):.0f} claims/s at the beginning, "
        f"{_rate(log.claims[-CLAIMS // 10 :]):.0f} at the end"
    )
    assert len(log.claims) >= CLAIMS
    assert max(log.in_progress) == 8
    assert not skipped
    assert not violations()


def _rate(claims: list[Claim]) -> float:
    """Return the number of claims per second."""
    return len(claims) / (claims[-1].ended - claims[0].ended)
