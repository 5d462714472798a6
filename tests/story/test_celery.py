"""Celery runs the daemons, without the broker for a while, and beside `daemons`."""

from __future__ import annotations

import re
import sys
import time

import pytest

from tests.story.celery import CeleryStage
from tests.story.project import exponents

pytestmark = [pytest.mark.story, pytest.mark.lengthy, pytest.mark.early]

PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59)
ANSWERED = """SELECT count(*) FROM workunit
    WHERE assimilate_state = 2 AND canonical_result_id IS NOT NULL"""
CLEARED = "SELECT count(*) FROM workunit WHERE file_delete_state = 2"
UNSENT = "SELECT count(*) FROM result WHERE server_state = 2"
#: Workunits that reached the assimilation state DONE (2) more than once.
TWICE = """SELECT workunit_id FROM ledger_entry WHERE axis = %s AND target = 2
    GROUP BY workunit_id HAVING count(*) > 1"""
#: A new line of a log; the lines of a traceback do not begin with a time.
LINE = re.compile(r"^(?=\d\d:\d\d:\d\d )", re.MULTILINE)
#: The two tracebacks that Celery and kombu log if the broker is killed while a worker acknowledges
#: a message; the second ends the worker.
OF_A_KILLED_BROKER = re.compile(
    r"\S+ CRITICAL celery\.worker("
    r"\.request +Couldn't ack '"
    r"|  +Unrecoverable error: AttributeError\(\"'NoneType' object has no attribute 'hostname'\"\)"
    r")"
)


@pytest.fixture
def celery(make_project):
    """Start a project whose daemons are run by Celery, and publish the app mersenne."""
    stage = CeleryStage(make_project(PURGE_AFTER="86400"))
    stage.start(workers=2)
    stage.project.publish()
    return stage


def unexpected_tracebacks(log: str) -> list[str]:
    """Return the log lines with a traceback, except those that a killed broker explains."""
    lines = [line for line in LINE.split(log) if "Traceback" in line]
    return [line for line in lines if not OF_A_KILLED_BROKER.match(line)]


def all_is_well(project):
    """Check that every workunit was assimilated once, and that all invariants hold."""
    from scheduler.lifecycle import Axis

    assert project.sql(TWICE, Axis.ASSIMILATION.value) == []
    assert "0 violations" in project.fsck()


@pytest.mark.lengthy
def test_two_workers_finish_all_workunits_although_redis_is_killed_and_restarted(
    celery, our_client
):
    project = celery.project
    names = project.submit(exponents([[p] for p in PRIMES[:8]]), quorum=2, fpops=1e9)
    for who in ("alice", "bob", "carol"):
        our_client(project, who).start()
    project.wait(lambda: project.count(ANSWERED) >= 3, within=60, what="the first answers")
    celery.redis.kill()
    # More work, so that the project cannot have been finished before the kill.
    names += project.submit(exponents([[p] for p in PRIMES[8:]]), quorum=2, fpops=1e9)
    time.sleep(3.0)
    celery.redis.start()
    celery.revive_workers()
    project.wait(lambda: project.count(ANSWERED) == len(names), within=60, what="every answer")
    project.wait(lambda: project.count(CLEARED) == len(names), within=30, what="every deletion")
    all_is_well(project)
    for name in ("worker1", "worker2"):
        assert unexpected_tracebacks(celery.log(name)) == []
    assert "Traceback" not in celery.log("beat"), celery.log("beat")


def test_celery_and_daemons_command_run_together_without_repeating_work(celery, our_client):
    project = celery.project
    with (project.folder / "daemons.log").open("ab") as output:
        project.children.start(
            "daemons",
            [sys.executable, "manage.py", "daemons", "--pause", "0.2"],
            environment=project.environment,
            output=output,
        )
    names = project.submit(exponents([[p] for p in PRIMES]), quorum=2, fpops=1e9)
    for who in ("alice", "bob"):
        our_client(project, who).start()
    project.wait(lambda: project.count(CLEARED) == len(names), within=90, what="every deletion")
    assert project.count(ANSWERED) == len(names)
    all_is_well(project)


def test_daemon_command_works_while_the_broker_is_down(celery):
    project = celery.project
    celery.redis.kill()
    # Running passes end immediately, because there is no work yet.
    for worker in ("worker1", "worker2"):
        project.wait(
            lambda worker=worker: "Cannot connect to redis" in celery.log(worker),
            within=60,
            what=f"{worker} hears of it",
        )
    time.sleep(1.0)
    project.submit(exponents([[p] for p in PRIMES]), quorum=2, fpops=1e9)
    assert project.count(UNSENT) == 0
    project.manage("transitioner", "--once")
    assert project.count(UNSENT) == 2 * len(PRIMES)
    all_is_well(project)
