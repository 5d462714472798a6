"""Fixtures of the long tests: the seed, the number of runs, the summary.

The fixture `proof` returns the seed of a test and records its counts.  The counts are stored in the
test's report, so that they arrive from every process of pytest-xdist.
"""

from __future__ import annotations

import os
from collections import Counter
from random import SystemRandom

import pytest

#: The counts that the summary of `make test-long` shows first, in this order; others follow.
NOUNS = ("walks", "steps", "interleavings", "kills", "violations")
#: The fixed seed of `make test`, so that no push fails by chance.
SHORT_SEED = 4
_COUNTS, _SEED, _NOTE = "long counts", "long seed", "long note"


class Proof:
    """Collects the counts, the seed and the notes of one test for the summary."""

    def __init__(self, node):
        self._node = node
        self.is_long = node.get_closest_marker("long") is not None

    def seed(self):
        """Return LONG_SEED if set; else a random seed for long tests, SHORT_SEED for others."""
        given = os.environ.get("LONG_SEED")
        chance = SystemRandom().randrange(1_000_000) if self.is_long else SHORT_SEED
        seed = int(given) if given else chance
        self._say(_SEED, seed)
        return seed

    def how_many(self, noun, otherwise):
        """Return the number of walks, interleavings or kills: LONG_WALKS etc., or the default."""
        given = os.environ.get(f"LONG_{noun.upper()}")
        return int(given) if given else otherwise

    def count(self, **numbers):
        """Add to the counts of the summary: `proof.count(walks=1, steps=80)`."""
        for key, total in self._node.user_properties:
            if key == _COUNTS:
                total.update(Counter(total) + Counter(numbers))
                return
        self._say(_COUNTS, dict(numbers))

    def note(self, text):
        """Add a line below this test in the summary."""
        self._say(_NOTE, text)

    def _say(self, key, value):
        self._node.user_properties.append((key, value))


@pytest.fixture
def proof(request):
    return Proof(request.node)


@pytest.fixture
def ground(transactional_db, keys_of_this_session):
    """Return the `Ground` of this test: apps and accounts that can be restored quickly."""
    from tests.long.ground import Ground

    one = Ground()
    one.lay()
    yield one
    one.leave()


def pytest_terminal_summary(terminalreporter):
    """Print one line for each test, and the totals."""
    told = [
        report
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "call"
        and any(key.startswith("long ") for key, _ in report.user_properties)
    ]
    if not told:
        return
    totals = Counter(violations=0)
    terminalreporter.section("what was tried")
    for report in sorted(told, key=lambda one: one.nodeid):
        said = list(report.user_properties)
        counts = Counter()
        for key, value in said:
            if key == _COUNTS:
                counts.update(value)
        if report.failed and not counts["violations"]:
            counts["violations"] = 1
        totals.update(counts)
        seeds = " ".join(f"seed {value}" for key, value in said if key == _SEED)
        name = report.nodeid.removeprefix("tests/long/")
        terminalreporter.line(f"{name}: {seeds} | {_listed(counts)} | {report.duration:.0f} s")
        for key, value in said:
            if key == _NOTE:
                terminalreporter.line(f"    {value}")
    terminalreporter.line(f"in all: {_listed(totals)}", bold=True)


def _listed(counts):
    nouns = [noun for noun in NOUNS if noun in counts]
    nouns += sorted(set(counts) - set(NOUNS))
    return ", ".join(f"{counts[noun]} {noun}" for noun in nouns)
