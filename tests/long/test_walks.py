"""Random walks through all that may happen; at the end, all is as promised."""

from __future__ import annotations

import logging
import time
from collections import Counter

import pytest

from tests.long.walking import walk

pytestmark = pytest.mark.django_db(transaction=True)

VACUUM_EVERY = 100


def make_walks(ground, proof, number, part=0):
    """Make so many walks, each of a seed of its own; the summary says what was tried."""
    first, tried = proof.seed() + part * number, Counter()
    began = time.monotonic()
    try:
        for seed in range(first, first + number):
            if (seed - first) % VACUUM_EVERY == 0:
                ground.vacuum()
            walk(ground, seed, tried)
    finally:
        proof.count(walks=tried["walks"], steps=tried["steps"])
        told = sorted((name.removeprefix(": "), n) for name, n in tried.items())
        proof.note(", ".join(f"{n} {name.replace('_', ' ')}" for name, n in told))
        proof.note(f"{1000 * (time.monotonic() - began) / max(1, tried['walks']):.0f} ms a walk")


@pytest.fixture(autouse=True)
def quiet_logs():
    """What walks make daemons say would fill pages."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_thirty_walks_keep_every_promise(ground, proof):
    make_walks(ground, proof, proof.how_many("walks", 30))


@pytest.mark.long
@pytest.mark.parametrize("part", range(2))
def test_two_thousand_walks_keep_every_promise(ground, proof, part):
    make_walks(ground, proof, proof.how_many("walks", 2000) // 2, part)
