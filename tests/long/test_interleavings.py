"""Random interleavings of the statements of two or three processes lose no work."""

from __future__ import annotations

import logging
import time
from collections import Counter
from random import Random

import pytest
from django.conf import settings

from tests.long import checks
from tests.long.acts import SCENARIOS, play
from tests.long.stepping import Worker, interleave
from tests.long.telling import tell
from tests.long.walking import end
from tests.long.world import World

pytestmark = pytest.mark.django_db(transaction=True)

VACUUM_EVERY = 200
#: The number of interleavings after which queues and task lists must have had rows of all kinds.
ENOUGH_INTERLEAVINGS = 100
ROWS = (
    "checked slots in use",
    "checked members of running lists",
    "checked members of open lists",
    "claimed from the pool",
)
#: Every 16th seed of a scenario runs until its rows are purged; the others until nothing is due.
TO_THE_END_EVERY = 16


@pytest.fixture
def workers(ground):
    crew = [Worker(play) for _ in range(3)]
    for worker in crew:
        worker.start()
    yield crew
    for worker in crew:
        worker.stop()


@pytest.fixture(autouse=True)
def quiet_logs():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def meet(ground, workers, seed, tried):
    """Prepare a scenario, run its acts in a random order of statements, and check the state."""
    names = list(SCENARIOS)
    name, chance = names[seed % len(names)], Random(f"interleaving {seed}")
    tried["interleavings"] += 1
    tried[name] += 1
    order, world = "", None
    try:
        world = World(ground, tried)
        acts = SCENARIOS[name](world, chance)
        busy, numbers = workers[: len(acts)], checks.queue_numbers()
        for worker, (what, words) in zip(busy, acts, strict=True):
            worker.begin(settings.VAR_DIR, world, what, words)
        order = interleave(busy, chance)
        checks.hold([worker.answer.error for worker in busy if worker.answer.error])
        for worker, (what, words) in zip(busy, acts, strict=True):
            world.learn_from(worker.answer.value, what, words[0])
        world.check_queues(numbers)
        world.quiet()
        world.change_batches("complete", "finish", "settle")
        checks.hold(world.faults() + checks.stranded())
        if (seed // len(names)) % TO_THE_END_EVERY == 0:
            end(world)
        else:
            checks.hold(checks.twice(world.submitted) + checks.archived_too_early())
    except Exception as error:
        raise AssertionError(
            f"Interleaving {seed}, {name}, in the order {order or '?'} "
            f"(LONG_SEED={seed} LONG_INTERLEAVINGS=1): {tell(error, world.story if world else [])}"
        ) from error


def make_interleavings(ground, workers, proof, number, part=0):
    first, tried = proof.seed() + part * number, Counter()
    began = time.monotonic()
    try:
        for seed in range(first, first + number):
            if (seed - first) % VACUUM_EVERY == 0:
                ground.vacuum()
            meet(ground, workers, seed, tried)
        if number >= ENOUGH_INTERLEAVINGS:
            assert [name for name in ROWS if not tried[name]] == []
    finally:
        done = tried.pop("interleavings", 0)
        proof.count(interleavings=done)
        proof.note(", ".join(f"{n} {name}" for name, n in sorted(tried.items())))
        proof.note(f"{1000 * (time.monotonic() - began) / max(1, done):.0f} ms an interleaving")


@pytest.mark.lengthy
def test_hundred_interleavings_of_statements_lose_no_work(ground, workers, proof):
    make_interleavings(ground, workers, proof, proof.how_many("interleavings", 100))


@pytest.mark.long
@pytest.mark.parametrize("part", range(2))
def test_ten_thousand_interleavings_of_statements_lose_no_work(ground, workers, proof, part):
    make_interleavings(ground, workers, proof, proof.how_many("interleavings", 10_000) // 2, part)
