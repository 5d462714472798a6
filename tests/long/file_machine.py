"""Random acts on files, on three connections; checks after each step."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import signal
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.conf import settings as django_settings
from django.db import connection
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    rule,
    run_state_machine_as_test,
)

from scheduler import storage
from scheduler.models import AppVersion, File, FileHold, FileRequest, Workunit
from tests import rows
from tests.conftest import NOON
from tests.long import filing
from tests.long.stepping import SOON, Stuck, Worker, is_blocked

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LONG_AFTER = datetime(2099, 1, 1, tzinfo=UTC)
PATIENCE = 30.0
CHOICE = st.integers(0, 2)
#: Numbers of steps that an act runs without a stop; most acts run to the end, so that rows exist.
HOW_FAR = (0, 2, 4, 6, 9, 1000, 1000, 1000, 1000, 1000)
#: Acts that add files; the clock does not advance during these acts (`antiques.ORPHAN_AGE`).
BRINGING = {"submission", "lines", "hold", "publication", "request"}
#: Act -> its arguments, from the machine and two small numbers; None if it cannot begin.
BEGINNINGS = {
    "submission": lambda m, one, other: m.inputs(one, other),
    "lines": lambda m, one, other: (
        m.crew.accounts[one % 2],
        [one, other] if one != other else [one],
        [other] if one > other else [],
    ),
    "hold": lambda m, one, other: (one, m.crew.accounts[other % 2], (1 + 9 * other) * HOUR),
    "renewal": lambda m, one, other: ([0, one], m.crew.accounts[other % 2], (1 + 5 * one) * HOUR),
    "giving_up": lambda m, one, other: (one, m.crew.accounts[other % 2]),
    "publication": lambda m, one, other: (1 + one % 2, other),
    "withdrawal": lambda m, one, _other: (1 + one % 2,),
    "request": lambda m, one, other: (m.crew.hosts[one % 2], str(m.path(other))),
    "listing": lambda m, one, _other: (m.crew.hosts[one % 2],),
    "finish": lambda m, one, _other: m.a_workunit(one),
    "deleter": lambda m, one, _other: (1 if one == 0 else 100,),
    "purge": lambda m, _one, _other: (),
    "antique_pass": lambda m, _one, _other: (),
    "past_holds": lambda m, one, _other: (1 if one == 0 else 100,),
    "forgotten": lambda m, one, _other: (1 if one == 0 else 100,),
}
#: Choices of each step; a choice that is listed more often is drawn more often.
THINGS = (
    *BEGINNINGS,
    *["submission", "lines", "finish", "deleter"] * 2,
    *["go on"] * 8,
    *["crash"] * 3,
)
THINGS += ("time", "time", "rest", "race", "race", "race", "race")


class Crew:
    """Three worker processes, accounts, hosts and counts, shared by all examples."""

    def __init__(self, home):
        self.home = home
        self.app = rows.an_app(filing.APP)
        self.accounts = [rows.an_account(is_superuser=True).pk for _ in range(2)]
        self.hosts = [rows.a_host().pk for _ in range(2)]
        self.workers = [Worker(filing.play) for _ in range(3)]
        self.examples = self.steps = self.crashes = 0

    def start(self):
        for worker in self.workers:
            worker.start()
        return self

    def stop(self):
        for worker in self.workers:
            worker.stop()

    def replace(self, index):
        """Kill a worker with its database connection, and start another one in its place."""
        old = self.workers[index]
        os.kill(old.pid, signal.SIGKILL)
        old._process.join(PATIENCE)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [old.backend])
        self.workers[index] = Worker(filing.play)
        self.workers[index].start()
        self.crashes += 1


class Files(RuleBasedStateMachine):
    """Random acts on three connections, a step at a time."""

    crew: Crew

    def __init__(self):
        super().__init__()
        self.now = NOON
        self.names = {}
        self.doing = [None] * 3
        filing.wipe()
        self.crew.examples += 1
        self.var = self.crew.home / f"{self.crew.examples}"
        django_settings.VAR_DIR = self.var
        for number in range(4):
            path = self.path(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(filing.content(number))

    def path(self, number):
        return self.var / "brought" / f"{number}.dat"

    def inputs(self, one, other):
        """Return arguments of `submission`: content numbers, path or None, file name or None."""
        known = next(iter(self.names), None) if (one, other) == (0, 0) else None
        return (
            [one] if one == other else [one, other],
            str(self.path(other)) if one == 1 else None,
            known,
        )

    def a_workunit(self, which):
        """Return the id of an unfinished workunit as a 1-tuple, or None if no workunit is open."""
        if "finish" in self.doing:
            return None
        ids = list(Workunit.objects.filter(assimilate_state=0).values_list("id", flat=True))
        return (sorted(ids)[which % len(ids)],) if ids else None

    # Acts

    def standing(self):
        return [i for i, one in enumerate(self.crew.workers) if one.is_waiting_for_leave]

    @rule(what=st.sampled_from(THINGS), one=CHOICE, other=CHOICE, far=st.sampled_from(HOW_FAR))
    def do(self, what, one, other, far):
        """Run one step: begin, continue or crash an act, or advance the clock."""
        if what in BEGINNINGS:
            self.begin(what, BEGINNINGS[what](self, one, other), far)
        elif what == "rest":
            self.rest()
        elif what == "race":
            self.race([one], 2 + 3 * other + far % 3)
        elif what == "time":
            if not BRINGING & set(self.doing):
                self.now += (1 + 20 * one + 5 * other) * HOUR
        elif standing := self.standing():
            index = standing[(one + other) % len(standing)]
            if what == "go on":
                self.go_on_with(index, far)
            else:
                self.crash(index)

    def begin(self, what, words, far):
        if words is None or None not in self.doing:
            return
        index = self.doing.index(None)
        self.doing[index] = what
        self.crew.workers[index].begin(self.var, self.now, what, words)
        self.settle()
        self.go_on_with(index, far)

    def race(self, numbers, steps):
        """Run a submission for `steps` steps, then delete the last references to its files."""
        if steps % 2:
            self.begin("lines", (self.crew.accounts[0], numbers, []), steps)
        else:
            self.begin("submission", (numbers, None, None), steps)
        for which in range(3):
            self.begin("finish", self.a_workunit(which), 1000)
        self.begin("deleter", (100,), 1000)
        self.begin("antique_pass", (), 1000)

    def crash(self, index):
        self.crew.replace(index)
        self.doing[index] = None
        self.settle()
        self.check()

    def rest(self):
        """Finish all acts, run all daemons, and check that only needed files are left."""
        while standing := self.standing():
            self.step(standing[0])
        assert self.doing == [None] * 3, f"they wait for each other: {self.doing}"
        self.now += DAY + HOUR
        self.passes(self.now)

    # Running acts

    def step(self, index):
        self.crew.steps += 1
        self.crew.workers[index].go_on()
        self.settle()
        self.check()

    def go_on_with(self, index, steps):
        for _ in range(steps):
            if not self.crew.workers[index].is_waiting_for_leave:
                return
            self.step(index)

    def settle(self):
        """Wait until every worker has stopped or waits for a lock; check the finished acts."""
        until = time.monotonic() + PATIENCE
        busy = [one for one, what in zip(self.crew.workers, self.doing, strict=True) if what]
        while on_their_way(busy):
            for one in busy:
                one.has_stopped(SOON)
            if time.monotonic() > until:
                raise Stuck(f"one of {self.doing} does not go on")
        for index, worker in enumerate(self.crew.workers):
            if self.doing[index] and worker.answer is not None:
                said, what = worker.answer.error, self.doing[index]
                self.doing[index] = None
                assert not said or said.startswith(filing.EXPECTED), f"{what}: {said}"

    def passes(self, now):
        for what, words in (
            ("past_holds", (100,)),
            ("forgotten", (100,)),
            ("deleter", (100,)),
            ("antique_pass", ()),
        ):
            filing.ACTS[what](now, *words)
        needed = filing.referred_to(now)
        assert set(File.objects.values_list("pk", flat=True)) == needed
        assert {name for name in filing.on_disk() if not name.startswith(".")} == set(
            File.objects.values_list("name", flat=True)
        )

    # Checks

    def check(self):
        """Check that needed files exist unchanged and that no name was used twice."""
        needed = filing.referred_to(self.now)
        for id_, name, sha256, doomed_at in File.objects.order_by("pk").values_list(
            "pk", "name", "sha256", "doomed_at"
        ):
            first = self.names.setdefault(name, (id_, sha256))
            assert first == (id_, sha256), f"{name} came again"
            if id_ in needed:
                assert doomed_at is None, f"{name} is needed and doomed"
                path = storage.download_path(name)
                assert path.exists(), f"{name} is needed and gone"
                assert hashlib.sha256(path.read_bytes()).hexdigest() == sha256

    def teardown(self):
        try:
            self.rest()
            for model in (AppVersion, FileRequest, FileHold):
                model.objects.all().delete()
            for pk in Workunit.objects.filter(assimilate_state=0).values_list("pk", flat=True):
                filing.finish(self.now, pk)
            self.passes(LONG_AFTER)
            survivors = filing.on_disk()
            assert not survivors, f"{survivors} survived their last reference"
        finally:
            for index, what in enumerate(self.doing):
                if what:
                    self.crew.replace(index)
            shutil.rmtree(self.var)


@contextmanager
def _a_crew():
    logging.disable(logging.CRITICAL)
    memory = Path("/dev/shm")
    home = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    crew = Crew(home).start()
    try:
        yield crew
    finally:
        crew.stop()
        filing.wipe()
        shutil.rmtree(home)
        logging.disable(logging.NOTSET)


def try_out(proof, **how):
    """Run the state machine with these Hypothesis settings; record counts for the summary."""
    with _a_crew() as crew:
        machine = type("Files", (Files,), {"crew": crew})
        hypothesis = settings(
            deadline=None, database=None, suppress_health_check=list(HealthCheck), **how
        )
        try:
            run_state_machine_as_test(machine, settings=hypothesis)
        finally:
            proof.count(walks=crew.examples, steps=crew.steps, crashes=crew.crashes)


def on_their_way(workers):
    """Return the workers that are neither stopped nor waiting for another one's lock.

    All workers are checked for a stop before any is checked for a lock: a commit in between can
    release a worker that was found waiting, and the worker that committed waits for no lock.
    """
    going = [one for one in workers if not one.has_stopped(0)]
    return [one for one in going if not is_blocked(one, workers)]
