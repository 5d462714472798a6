"""Random walks over graphs: no workunit waits for ever or is released early."""

from __future__ import annotations

import logging
import os
import random
import signal
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial

import pytest
from django.db import connection

from daemons import assimilator, transitioner, validator
from scheduler.models import Batch, Dependency, LedgerEntry, Result, Workunit
from scheduler.results import revalidate
from scheduler.work import control, dependencies, retry
from scheduler.work.dependencies import DependencyRefused
from scheduler.work.submission.submit import NewOutput, NewWorkunit, submit
from tests import graphs, rows
from tests.conftest import NOON
from tests.long.conftest import SHORT_SEED
from tests.long.stepping import PATIENCE, Stuck, Worker

pytestmark = pytest.mark.django_db(transaction=True)

WALKS, STEPS, PROCESSES = 500, 24, 3
#: The share of walks in which a process is killed, and the longest time before that; seconds.
KILLS, KILLED_WITHIN = 0.2, 0.4
OUTPUTS = (NewOutput(open_name="out", max_nbytes=1000),)
_TABLES = (
    "workunit, result, result_file, dependency, workunit_wakeup, ledger_entry, manual_grant, credit_entry, "
    "science_failure, account_app_credit, host_app_credit, team_app_credit, app_credit_cursor"
)


@pytest.fixture(autouse=True)
def quiet_logs():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Walk:
    """Random steps over the workunits of one batch.

    Each process that takes part in a walk has its own object, and the same seed.
    """

    def __init__(self, app, host, seed):
        self.app, self.host, self.seed, self.count = app, host, seed, Counter()
        self.batch = f"walk {seed}"

    def run(self, crowd):
        """Take random steps in several processes at once, then finish all work and check."""
        chance = random.Random(self.seed)
        self.submit(chance, 6)
        if crowd:
            self.count += in_processes(self.seed, crowd, chance)
        else:
            self.walk(f"{self.seed}/0")
        self.check("after the steps")
        self.finish()
        self.check("at the end")
        self.check_order()

    def walk(self, seed):
        chance = random.Random(seed)
        for _ in range(STEPS):
            act = chance.choice(self.acts)
            self.count[act.__name__] += 1
            try:
                act(self, chance)
            except DependencyRefused:
                self.count["refused"] += 1
        return self.count

    # Steps

    def some(self, chance, number=1):
        names = list(Workunit.objects.order_by("pk").values_list("name", flat=True))
        return chance.sample(names, min(number, len(names)))

    def submit(self, chance, number=2):
        first = f"w{chance.getrandbits(48):x}"
        own = [f"{first}_{n}" for n in range(number)]
        new = []
        for index, name in enumerate(own):
            group = chance.random() < 0.2
            parents = {*self.some(chance, 2), *own[:index]}
            if number < 6:
                # A later workunit, which may close a cycle.
                parents |= set(own[index + 1 :][:1])
            after = tuple(sorted(p for p in parents if chance.random() < 0.5))
            new.append(
                NewWorkunit(
                    name=name,
                    group=group,
                    outputs=() if group else OUTPUTS,
                    after=after,
                    continuations=tuple(self.some(chance, 1)) if chance.random() < 0.3 else (),
                    held=not after and chance.random() < 0.3,
                    max_error_results=0,
                )
            )
        submit(
            app=self.app.name,
            workunits=new,
            batch=self.batch,
            submitter=self.host.account,
            now=NOON,
        )

    def add(self, chance):
        parent, *children = self.some(chance, chance.choice((2, 2, 3)))
        if children:
            parent_id = Workunit.objects.get(name=parent).pk
            dependencies.add_continuations(parent_id, children, now=NOON)

    def remove(self, chance):
        edges = list(Dependency.objects.values_list("parent_id", "child_id"))
        if edges:
            parent, child = chance.choice(edges)
            dependencies.remove_continuations(parent, [child], now=NOON)

    def cancel(self, chance):
        control.cancel(names=self.some(chance), now=NOON)

    def revalidate(self, chance):
        for name in self.some(chance):
            revalidate.request(revalidate.choose(workunit=name).ids, now=NOON)

    def retry(self, _chance):
        retry.retry(Batch.objects.get(name=self.batch).pk, now=NOON)

    def hold(self, chance):
        control.hold(names=self.some(chance), now=NOON)

    def release(self, chance):
        control.release(names=self.some(chance, 2), now=NOON)

    def report(self, chance):
        if sent := sorted(graphs.sent()):
            graphs.report([chance.choice(sent)], host=self.host)

    def report_error(self, chance):
        if sent := sorted(graphs.sent()):
            graphs.report([chance.choice(sent)], word="error", host=self.host)

    def one_pass(self, chance):
        daemon = chance.choice((transitioner, transitioner, validator, assimilator))
        daemon.run_pass(now=NOON, limit=chance.choice((1, 2, 1000)))

    acts = (
        *(submit, add, add, remove, cancel, revalidate, retry, hold, release),
        *(report_error,) * 2,
        *(report,) * 5,
        *(one_pass,) * 10,
    )

    # The end

    def finish(self):
        """Release and compute everything until nothing is left to compute."""
        for _ in range(100):
            held = list(Workunit.objects.filter(release_state=2).values_list("name", flat=True))
            if held:
                control.release(names=held, now=NOON)
            graphs.run_daemons()
            if not (sent := graphs.sent()):
                break
            graphs.report(sent, host=self.host)
        left = sorted(graphs.ended()["open"])
        assert left == [], f"walk {self.seed}: {left} wait for ever"

    def check(self, when):
        found = graphs.violations()
        assert found == [], f"walk {self.seed} {when}: {found}"

    def check_order(self):
        """Check that every parent had an answer before its child was released."""
        moves = LedgerEntry.objects.filter(result_id=None)
        answers, releases = {}, {}
        for move in moves.filter(axis=4, target__in=(2, 4)).order_by("-id"):
            answers[move.workunit_id] = move.pk
        for move in moves.filter(axis=5, source=1, target=3).order_by("-id"):
            releases[move.workunit_id] = move.pk
        sent = set(Result.objects.values_list("workunit_id", flat=True))
        for edge in Dependency.objects.all():
            if edge.child_id in sent or edge.child_id in releases:
                released = releases.get(edge.child_id, 0)
                assert 0 < answers.get(edge.parent_id, 0) < released, f"walk {self.seed}: {edge}"
                self.count["edges met"] += 1


# Processes


def in_processes(seed, crowd, chance):
    """Take the steps of a walk in all processes at once; return the numbers of the steps."""
    count = Counter()
    victim = crowd[0] if chance.random() < KILLS else None
    for number, worker in enumerate(crowd):
        worker.begin(seed, number)
    if victim is not None:
        time.sleep(chance.uniform(0, KILLED_WITHIN))
        os.kill(victim.pid, signal.SIGKILL)
        wait_for_end(victim.backend)
        victim.start()
        count["killed"] += 1
    for worker in crowd:
        if worker is not victim:
            assert worker.has_stopped(PATIENCE), f"walk {seed}: a process waits for ever"
            assert not worker.answer.error, f"walk {seed}: {worker.answer.error}"
            count += worker.answer.value
    return count


def wait_for_end(backend):
    """Wait until PostgreSQL has ended the connection of a killed process."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with connection.cursor() as cursor:
            cursor.execute("SELECT FROM pg_stat_activity WHERE pid = %s", [backend])
            if not cursor.fetchall():
                return
        time.sleep(0.01)
    raise Stuck("The connection of a killed process does not end.")


def a_walk(app, host, seed, number, _take_turn):
    """Take the steps of a walk in this process; return their numbers."""
    return Walk(app, host, seed).walk(f"{seed}/{number}")


def make_walks(seeds, processes=0):
    app, host = graphs.an_app(), rows.a_host()
    total = Counter()
    with ExitStack() as stack:
        play = partial(a_walk, app, host)
        crowd = [Worker(play, is_stepped=False) for _ in range(processes)]
        for worker in crowd:
            worker.start()
            stack.callback(worker.stop)
        for seed in seeds:
            walk = Walk(app, host, seed)
            walk.run(crowd)
            total += walk.count
            with connection.cursor() as cursor:
                cursor.execute(f"TRUNCATE {_TABLES}")
                cursor.execute("DELETE FROM batch")
    return total


def test_few_graph_walks_on_one_connection():
    total = make_walks(range(SHORT_SEED, SHORT_SEED + 5))
    assert total["edges met"] > 0


@pytest.mark.long
def test_graph_walks_in_several_processes(proof):
    first, number = proof.seed(), proof.how_many("walks", WALKS)
    total = make_walks(range(first, first + number), PROCESSES)
    proof.count(walks=number, kills=total["killed"])
    proof.note(", ".join(f"{times} {name}" for name, times in sorted(total.items())))
    assert total["edges met"] > number
    assert total["refused"] > 0
