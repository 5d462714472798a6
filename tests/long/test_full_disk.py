"""The disk is full during uploads and assimilation, and nothing is lost."""

from __future__ import annotations

import json
import signal
from collections import Counter

import pytest

from tests.long.stand import Stand
from tests.long.test_kills import calm, listed
from tests.long.truth import check_the_end
from tests.long.volunteers import Swarm

#: Workunits whose answers could be copied, and wait for it.
READY = """
SELECT count(*) FROM workunit
WHERE assimilate_state = 1 AND app_id = (SELECT id FROM app WHERE name = 'copied')
"""


@pytest.mark.story
def test_a_disk_that_is_full_for_a_moment_loses_nothing(tmp_path, proof):
    fill(tmp_path, proof, times=1, workunits={"counted": 8, "copied": 16})


@pytest.mark.long
def test_a_disk_that_is_full_again_and_again_loses_nothing(tmp_path, proof):
    fill(tmp_path, proof, times=5, workunits={"counted": 60, "copied": 120})


def fill(folder, proof, *, times, workunits):
    """Fill the disk so often, each time until uploads and copies were refused."""
    # What fails is tried again in some minutes: a minute of the project is a second of ours.
    stand = Stand(folder / "project", rate=60.0)
    try:
        stand.set_up(*workunits)
        stand.submit_all(workunits)
        stand.run()
        results = 2 * sum(workunits.values())
        with stand.watch_memory() as memory, Swarm(stand.port, size=4, seed=4) as swarm:
            for number in range(1, times + 1):
                fill_once(stand, swarm, quota=results * number / (times + 1))
            calm(stand, swarm)
        stand.end()
        check_the_end(stand)
        memory.check()
        assert stand.count("SELECT count(*) FROM science_failure") == 0
        said = Counter(what for what in events(stand) if "put off" in what or "full" in what)
        proof.count(violations=0)
        proof.note(f"full {times} times; said: {listed(said)}; told: {listed(swarm.said)}")
    finally:
        stand.close()


def fill_once(stand, swarm, *, quota):
    """Have uploads and assimilation meet a full disk, then make room."""
    assimilator = stand.children.started["assimilator"]
    put_off = events(stand).count("disk is full")
    assimilator.send_signal(signal.SIGSTOP)
    try:
        swarm.quota = quota
        stand.wait(lambda: stand.count(READY) > 2, within=60, what="answers to copy")
        stand.full_disk_file.touch()
        refused = uploads_refused(swarm)
    finally:
        assimilator.send_signal(signal.SIGCONT)
    # Volunteers get new work for what they reported, so that there is something to upload.
    swarm.quota += swarm.at_once
    stand.wait(lambda: uploads_refused(swarm) > refused + 2, within=60, what="uploads put off")
    stand.wait(
        lambda: events(stand).count("disk is full") > put_off,
        within=60,
        what="copies put off",
    )
    swarm.check()
    stand.full_disk_file.unlink()


def uploads_refused(swarm):
    return swarm.said["upload: No space left on server"]


def events(stand):
    return [json.loads(line)["event"] for line in stand.events() if line.startswith("{")]
