"""Random walks of submissions, RPCs, daemons and failures keep every invariant."""

from __future__ import annotations

import logging
import time
from collections import Counter

import pytest

from tests.long import sameness
from tests.long.conftest import SHORT_SEED
from tests.long.telling import tell, trace
from tests.long.walking import play, steps_of, walk
from tests.long.world import World

pytestmark = pytest.mark.django_db(transaction=True)

#: The number of walks that must examine rows of all kinds, and act on them in these ways.
ENOUGH_WALKS = 30
ROWS = (
    "checked slots in use",
    "checked members of running lists",
    "checked members of open lists",
    "claimed from the pool",
    "refused a change of a queue",
    "refused a submission to a queue",
    ": report_one_of_a_list_or_queue",
    ": time_out_one_of_a_list_or_queue",
)


def make_walks(ground, proof, number, part=0):
    """Run `number` walks with different seeds; record counts for the summary."""
    first, tried = proof.seed() + part * number, Counter()
    began = time.monotonic()
    try:
        for seed in range(first, first + number):
            walk(ground, seed, tried)
        # Else the invariants of slots and task lists would have examined empty tables.
        if number >= ENOUGH_WALKS:
            assert [name for name in ROWS if not tried[name]] == []
    finally:
        proof.count(walks=tried["walks"], steps=tried["steps"])
        told = sorted((name.removeprefix(": "), n) for name, n in tried.items())
        proof.note(", ".join(f"{n} {name.replace('_', ' ')}" for name, n in told))
        proof.note(f"{1000 * (time.monotonic() - began) / max(1, tried['walks']):.0f} ms a walk")


@pytest.fixture(autouse=True)
def quiet_logs():
    """Disable logs: daemons log many lines during walks."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.lengthy
def test_walk_with_the_same_seed_is_reproducible_in_one_process(ground, proof):
    seed = proof.seed()
    traces = [trace(play(ground, steps_of(one), Counter())) for one in (seed, seed + 1, seed)]
    assert traces[0] == traces[2] != traces[1]


def test_caches_are_cleared_after_a_walk(ground):
    sameness.forget()
    before = sameness.memories()
    play(ground, steps_of(SHORT_SEED), Counter())
    sameness.forget()
    after = sameness.memories()
    assert {name: after[name] for name in after if after[name] > before.get(name, 0)} == {}


def test_failure_report_of_a_walk_has_rows_moves_and_last_events(ground):
    world = World(ground, Counter())
    (name,) = world.submit("plain", 1)
    world.run("transitioner")
    told = tell(AssertionError(f"{name} is broken"), world.story)
    assert f"{name}: id 1, name {name}" in told
    assert "result 1, result: nothing to UNSENT, because replica needed (by transitioner)" in told
    assert "01. 12:00:00 transitioner: 1 workunit: 1 replicated" in told


@pytest.mark.early
@pytest.mark.lengthy
def test_thirty_random_walks_keep_every_invariant(ground, proof):
    make_walks(ground, proof, proof.how_many("walks", 30))


@pytest.mark.long
@pytest.mark.parametrize("part", range(2))
def test_two_thousand_random_walks_keep_every_invariant(ground, proof, part):
    make_walks(ground, proof, proof.how_many("walks", 2000) // 2, part)
