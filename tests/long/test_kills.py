"""SIGKILL of random processes under load loses no work and repeats none.

The clock of the project is accelerated, so that the lease of a killed daemon ends within the test,
sometimes while a slow holder still works.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from contextlib import suppress

import psutil
import pytest

from daemons.management.processes import wait_until
from daemons.registry import DAEMONS
from tests.long.stand import CELERY, CELERY_WORKERS, Stand, children_of, gone
from tests.long.truth import check_the_end
from tests.long.volunteers import Swarm

#: Kind of process -> its weight in random choices.
CHANCES = {"daemon": 10, "web worker": 4, "web parent": 2, "backend": 2, "postmaster": 2}
CELERY_CHANCES = {"celery": 8, "pool process": 6, "web worker": 2, "backend": 2, "postmaster": 1}
#: Seconds from one kill to the next.
EVERY = (0.2, 1.2)
#: Seconds after the last kill within which all work must be finished.
FINISHED_WITHIN = 180.0


@pytest.mark.long
def test_two_hundred_process_kills_lose_no_work(tmp_path, proof):
    kills = proof.how_many("kills", 220)
    storm(
        tmp_path,
        proof,
        kills=kills,
        rate=60.0,
        workunits={"counted": 160, "copied": 160, "appended": 40},
        levels=12,
    )


@pytest.mark.lengthy
@pytest.mark.story
def test_dozen_process_kills_lose_no_work(tmp_path, proof):
    storm(
        tmp_path,
        proof,
        kills=12,
        rate=600.0,
        workunits={"counted": 12, "copied": 12, "appended": 2},
        levels=3,
    )


@pytest.mark.long
def test_sixty_process_kills_lose_no_work_with_celery(tmp_path, proof):
    storm(
        tmp_path,
        proof,
        kills=proof.how_many("kills", 60),
        rate=60.0,
        workunits={"counted": 60, "copied": 60},
        levels=5,
        chances=CELERY_CHANCES,
    )


def storm(folder, proof, *, kills, rate, workunits, levels, chances=CHANCES):
    """Kill `kills` processes while volunteers compute all submitted workunits.

    A graph of `levels` is submitted, too, which is computed level by level, and as many task lists
    and workunits of a queue with a limit.
    """
    seed = proof.seed()
    stand = Stand(folder / "project", rate=rate)
    try:
        stand.set_up()
        stand.submit_all(workunits)
        results = 2 * sum(workunits.values()) + stand.submit_graph("counted", levels)
        results += stand.submit_lists("counted", levels)
        stand.run(by_celery=chances is CELERY_CHANCES)
        reaper = Reaper(stand, random.Random(seed), chances)
        with stand.watch_memory() as memory, Swarm(stand.port, size=6, seed=seed) as swarm:
            began = time.monotonic()
            reaper.reap(kills, swarm, results)
            took = time.monotonic() - began
            calm(stand, swarm)
            finished = time.monotonic() - began - took
        stand.end()
        repeats = check_the_end(stand)
        memory.check()
        proof.count(kills=sum(reaper.killed.values()), violations=0)
        proof.note(
            f"killed: {listed(reaper.killed)}; in {took:.0f} s, finished {finished:.0f} s later"
        )
        proof.note(f"{swarm.reported} results reported; {repeats} repeated calls of `append`")
        proof.note(f"volunteers tried again after: {listed(swarm.troubles)}")
        proof.note(memory.sentence())
    finally:
        stand.close()


def calm(stand, swarm):
    """Run until all work is finished."""
    swarm.quota = 1e9

    def is_finished():
        swarm.check()
        stand.revive()
        with suppress(Exception):  # the database may still recover
            return stand.unfinished() == 0
        return False

    if not wait_until(is_finished, within=FINISHED_WITHIN, look_again=0.2):
        rows = stand.sql(
            "SELECT * FROM workunit WHERE assimilate_state <> 2 OR file_delete_state <> 2 LIMIT 3"
        )
        pytest.fail(
            f"{stand.unfinished()} workunits unfinished, such as {rows}, at {stand.now()}\n{stand.log()}"
        )


def listed(counts):
    return ", ".join(f"{number} {what}" for what, number in counts.most_common()) or "nothing"


class Reaper:
    """Kills random processes of a stand, and counts them by kind."""

    def __init__(self, stand, rng, chances):
        self.stand, self.rng, self.chances = stand, rng, chances
        self.killed = Counter()

    def reap(self, kills, swarm, results):
        """Kill `kills` processes; raises the swarm's quota of reports with each kill."""
        while (done := sum(self.killed.values())) < kills:
            swarm.quota = results * (done + 1) / (kills + 1)
            pause_until = time.monotonic() + self.rng.uniform(*EVERY)
            while time.monotonic() < pause_until:
                swarm.check()
                self.stand.revive()
                time.sleep(0.02)
            if what := self.kill_one():
                self.killed[what] += 1

    def kill_one(self):
        """Kill a process of a random kind; return its name, or None if none of the kind was up."""
        kind = self.rng.choices(list(self.chances), weights=list(self.chances.values()))[0]
        return getattr(self, kind.replace(" ", "_"))()

    def daemon(self):
        name = self.rng.choice([daemon.name for daemon in DAEMONS])
        if not self.stand.is_up(name):
            return None
        self.stand.children.kill(name)
        return name

    def celery(self):
        name = self.rng.choice(CELERY)
        if not self.stand.is_up(name):
            return None
        self.stand.children.kill(name)
        return name

    def pool_process(self):
        """Kill a pool process of a Celery worker."""
        name = self.rng.choice(CELERY_WORKERS)
        pool = self.stand.pool_processes(name) if self.stand.is_up(name) else []
        self.stand.excuse(name)
        return self._strike(self.rng.choice(pool), "pool process of Celery") if pool else None

    def web_worker(self):
        workers = self.stand.web_workers() if self.stand.is_up("server") else []
        self.stand.excuse("server")
        return self._strike(self.rng.choice(workers), "web worker") if workers else None

    def web_parent(self):
        """Kill the web server's parent process; fails if its workers survive it."""
        if not self.stand.is_up("server"):
            return None
        workers = children_of(self.stand.children.started["server"].pid)
        self.stand.children.kill("server")
        assert all(map(gone, workers)), "web workers outlive their parent"
        return "web parent"

    def backend(self):
        postmaster = self._postmaster()
        backends = [
            process
            for process in (children_of(postmaster) if postmaster else [])
            if is_backend(process)
        ]
        return (
            self._strike(self.rng.choice(backends), "backend of PostgreSQL") if backends else None
        )

    def postmaster(self):
        pid = self._postmaster()
        return self._strike(psutil.Process(pid), "postmaster") if pid else None

    def _postmaster(self):
        found = self.stand.database.running()
        return found.pid if found else None

    def _strike(self, process, what):
        # psutil checks that the process id has not been reused.
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
            return what
        return None


def is_backend(process):
    """Return whether a child of the postmaster serves a connection of the project."""
    with suppress(psutil.Error):
        return "manyhands manyhands" in " ".join(process.cmdline())
    return False
