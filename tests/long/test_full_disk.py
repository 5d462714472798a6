"""A full disk during uploads and assimilation loses no work."""

from __future__ import annotations

import json
import signal
from collections import Counter

import pytest

from tests.long.stand import Stand
from tests.long.test_kills import calm, listed
from tests.long.truth import check_the_end
from tests.long.volunteers import Swarm

#: App -> number of workunits to submit before the disk is full, and while it is full.
BEFORE = {"counted": 8, "copied": 16}
MEANWHILE = {"counted": 4, "copied": 8}
#: The number of workunits whose outputs are to be copied by the assimilator.
READY = """
SELECT count(*) FROM workunit
WHERE assimilate_state = 1 AND app_id = (SELECT id FROM app WHERE name = 'copied')
"""


@pytest.mark.lengthy
@pytest.mark.story
def test_disk_that_is_full_once_loses_no_work(tmp_path, proof):
    fill(tmp_path, proof, times=1)


@pytest.mark.long
def test_disk_that_is_full_five_times_loses_no_work(tmp_path, proof):
    fill(tmp_path, proof, times=5)


def fill(folder, proof, *, times):
    """Fill the disk `times` times, each time until uploads and copies have failed."""
    # Failures are retried after some minutes, so the clock runs 60 times as fast.
    stand = Stand(folder / "project", rate=60.0)
    try:
        stand.set_up(*BEFORE)
        stand.run()
        with stand.watch_memory() as memory, Swarm(stand.port, size=4, seed=4) as swarm:
            for _ in range(times):
                fill_once(stand, swarm)
            calm(stand, swarm)
        stand.end()
        check_the_end(stand)
        memory.check()
        assert stand.count("SELECT count(*) FROM science_failure") == 0
        said = Counter(what for what in events(stand) if "put_off" in what or "disk" in what)
        assert said["disk_full"] == said["disk_has_room"] == times, said
        proof.count(violations=0)
        proof.note(f"full {times} times; said: {listed(said)}; told: {listed(swarm.said)}")
    finally:
        stand.close()


def fill_once(stand, swarm):
    """Fill the disk until an assimilation and uploads have failed, then free it."""
    assimilator = stand.children.started["assimilator"]
    put_off = events(stand).count("disk_full")
    # To be independent of timing, the assimilator is stopped until outputs are ready, and the
    # workunits to upload are submitted only when the disk is full.
    assimilator.send_signal(signal.SIGSTOP)
    try:
        stand.submit_all(BEFORE)
        stand.wait(lambda: stand.count(READY) > 2, within=60, what="answers to copy")
        stand.full_disk_file.touch()
    finally:
        assimilator.send_signal(signal.SIGCONT)
    stand.wait(lambda: events(stand).count("disk_full") > put_off, within=60, what="copies put off")
    refused = uploads_refused(swarm)
    stand.submit_all(MEANWHILE)
    stand.wait(lambda: uploads_refused(swarm) > refused + 2, within=60, what="uploads put off")
    swarm.check()
    stand.full_disk_file.unlink()
    stand.wait(lambda: stand.count(READY) == 0, within=60, what="copies made")


def uploads_refused(swarm):
    return swarm.said["upload: No space left on server"]


def events(stand):
    return [json.loads(line)["event"] for line in stand.events() if line.startswith("{")]
