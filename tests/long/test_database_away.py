"""An outage of PostgreSQL for 30 seconds under load loses no work."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter

import psutil
import pytest

from daemons.management.processes import wait_until
from tests.long.stand import Stand, children_of
from tests.long.test_kills import calm, listed
from tests.long.truth import check_the_end
from tests.long.volunteers import Swarm, Unwell, Volunteer

pytestmark = pytest.mark.long

AWAY_FOR = 30.0
WORKUNITS = {"counted": 80, "copied": 80}
#: Maximum seconds of an upload, which needs no database; of an RPC during the outage; and of the
#: first RPC to a frozen database, which must time out.
UPLOAD_WITHIN, TOLD_WITHIN, FIRST_TOLD_WITHIN = 5.0, 15.0, 28.0
#: Log event -> the processes that may log it once per outage.
SAID_ONCE = {
    "database_failed": "each daemon",
    "daemon_recovered": "each daemon",
    "heartbeat_failed": "each web process",
    "database_unreachable": "each web process",
    "database_recovered": "each web process",
}


@pytest.mark.parametrize("how", ["stopped", "frozen"])
def test_postgresql_outage_of_30_seconds_loses_no_work(tmp_path, proof, how):
    stand = Stand(tmp_path / "project", is_far=True)
    try:
        stand.set_up("counted", "copied")
        stand.submit_all(WORKUNITS)
        stand.run()
        results = 2 * sum(WORKUNITS.values())
        patient = Volunteer(key="", name="patient", port=stand.port)
        patient.attach()
        patient.converse(seconds=200.0, report=())
        assert len(patient.work) > 15
        with stand.watch_memory() as memory, Swarm(stand.port, size=6, seed=proof.seed()) as swarm:
            swarm.quota = results / 4
            stand.wait(lambda: swarm.reported >= results / 6, within=60, what="load")
            said_before = len(stand.events())
            swarm.quota = results / 2
            told = away(stand, patient, how)
            back_at = time.monotonic()
            report_all(patient)
            calm(stand, swarm)
            recovered = time.monotonic() - back_at
        said = events(stand.events()[said_before:])
        stand.end()
        check_the_end(stand)
        memory.check()
        check_the_log(said, how)
        proof.count(violations=0)
        proof.note(
            f"away for {AWAY_FOR:.0f} s, {how}: {told}; all finished {recovered:.0f} s later"
        )
        proof.note(f"volunteers tried again after: {listed(swarm.troubles)}")
        proof.note(memory.sentence())
    finally:
        stand.close()


def away(stand, patient, how):
    """Stop the database for a while; check that uploads succeed and RPCs are deferred."""
    thaw = freeze(stand) if how == "frozen" else stop(stand)
    until = time.monotonic() + AWAY_FOR
    uploads = replies = 0
    try:
        for held in list(patient.work.values()):
            began = time.monotonic()
            patient.upload(held)
            assert time.monotonic() - began < UPLOAD_WITHIN, "an upload waited for the database"
            uploads += 1
            if uploads % 5 == 1:
                is_first = how == "frozen" and not replies
                began = time.monotonic()
                reply = patient.converse(seconds=1.0, report=())
                told_within = FIRST_TOLD_WITHIN if is_first else TOLD_WITHIN
                assert time.monotonic() - began < told_within
                assert reply.project_is_down
                assert reply.request_delay >= 1
                replies += 1
            if time.monotonic() > until:
                break
        while time.monotonic() < until:
            time.sleep(0.1)
    finally:
        thaw()
    return f"{uploads} uploads accepted, {replies} RPCs deferred"


def stop(stand):
    """Stop PostgreSQL in order; return a function that starts it again."""
    assert stand.database.stop()
    return stand.database.ensure_running


def freeze(stand):
    """Send SIGSTOP to all processes of PostgreSQL; return a function that resumes them."""
    postmaster = psutil.Process(stand.database.running().pid)
    frozen = []
    # The postmaster first, because it could start other processes.
    postmaster.send_signal(signal.SIGSTOP)
    for process in (postmaster, *children_of(postmaster.pid)):
        process.send_signal(signal.SIGSTOP)
        frozen.append(process)

    def thaw():
        for process in reversed(frozen):
            process.send_signal(signal.SIGCONT)

    return thaw


def report_all(volunteer):
    """Upload and report all results, with retries, until they are acknowledged."""

    volunteer.hang_up()

    def is_reported():
        try:
            for held in volunteer.work.values():
                if not held.is_uploaded:
                    volunteer.upload(held)
            volunteer.converse(seconds=0.0, report=list(volunteer.work))
        except Unwell:
            return False
        return not volunteer.work

    assert wait_until(is_reported, within=90, look_again=0.5), volunteer.said
    volunteer.hang_up()


def events(lines):
    """Return a Counter of log events by (event, daemon or logger)."""
    said = Counter()
    for line in lines:
        if line.startswith("{"):
            record = json.loads(line)
            said[record["event"], record.get("daemon", record["logger"])] += 1
    return said


def check_the_log(said, how):
    """Check that each process logs the outage once and its end once."""
    told_of = {event for event, _ in said}
    assert "database_unreachable" in told_of
    if how == "stopped":
        assert told_of >= {"database_failed", "daemon_recovered"}
    workers = 2
    for (event, who), times in said.items():
        if event in SAID_ONCE:
            most = workers if SAID_ONCE[event] == "each web process" else 1
            assert times <= most, f"{event} by {who}: {times} times"
