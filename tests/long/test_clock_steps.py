"""Steps of the clock by an hour under load cause no stall and no time-out."""

from __future__ import annotations

import random
import time

import pytest

from tests.long.stand import Stand
from tests.long.test_kills import calm, listed
from tests.long.truth import check_the_end
from tests.long.volunteers import Swarm

pytestmark = pytest.mark.long

WORKUNITS = {"counted": 100, "copied": 100}
HOUR = 3600.0
#: Seconds; the backward steps repeat an hour of project time twice.
STEPS = (HOUR, -HOUR, -HOUR, HOUR)
#: Seconds within which work must continue after a step.
GOES_ON_WITHIN = 45.0
#: The number of workunits with enough successes that are not assimilated yet.
STALLED = """
SELECT count(*) FROM workunit AS w WHERE assimilate_state <> 2
    AND (SELECT count(*) FROM result WHERE workunit_id = w.id AND outcome = 1) >= min_quorum"""
TIMED_OUT = "SELECT count(*) FROM result WHERE outcome = 4"


def test_clock_steps_of_an_hour_cause_no_stall_and_no_timeout(tmp_path, proof):
    rng = random.Random(proof.seed())
    # Every step is longer than the deadline: without protection all results would time out.
    stand = Stand(tmp_path / "project", OUTAGE_AFTER="600")
    slowest = 0.0
    try:
        stand.set_up("counted", "copied")
        stand.submit_all(WORKUNITS, deadline="30min")
        stand.run()
        results = 2 * sum(WORKUNITS.values())
        with stand.watch_memory() as memory, Swarm(stand.port, size=6, seed=4) as swarm:
            for number, step in enumerate(STEPS, start=1):
                swarm.quota = results * number / (len(STEPS) + 1)
                time.sleep(rng.uniform(0.5, 2.5))  # at a random point of the work
                stand.step_clock(step)
                slowest = max(slowest, await_progress(stand, swarm, number, step))
                assert stand.count(TIMED_OUT) == 0, f"time-outs after step {number}"
            calm(stand, swarm)
        stand.end()
        assert stand.count(TIMED_OUT) == 0
        check_the_end(stand)
        memory.check()
        proof.count(violations=0)
        proof.note(
            f"{len(STEPS)} steps of an hour; work went on at most {slowest:.0f} s after a step"
        )
        proof.note(f"volunteers tried again after: {listed(swarm.troubles)}")
    finally:
        stand.close()


def await_progress(stand, swarm, number, step):
    """Wait until the quota is reported and all complete quorums assimilated; return seconds."""
    began = time.monotonic()

    def goes_on():
        swarm.check()
        return swarm.reported >= int(swarm.quota) and stand.count(STALLED) == 0

    stand.wait(goes_on, within=GOES_ON_WITHIN, what=f"work after step {number} of {step:.0f} s")
    return time.monotonic() - began
