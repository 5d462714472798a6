"""Runs random walks: draws the steps, runs and checks them, shrinks failing walks."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

from scheduler.files import antiques
from tests.long import checks, sameness
from tests.long.rules import RULES
from tests.long.telling import tell
from tests.long.world import World

STEPS = 60
#: A time at which all files are antique; files have times of the real clock.
LONG_AFTER = datetime(2099, 1, 1, tzinfo=UTC)
#: Time limit of shrinking a failing walk, in seconds.
SHRINK_FOR = float(os.environ.get("LONG_SHRINK_SECONDS") or 60)


@dataclass(frozen=True, slots=True)
class Step:
    """A rule and its random seed; each step has its own, so that steps can be dropped."""

    rule: str
    seed: int


class Broken(AssertionError):
    """A check failed; the message has the rows, moves and last events."""


class WalkFailed(AssertionError):
    """A check failed. Hint: the message has the seed and the shortest walk found."""


def steps_of(seed):
    """Return the steps of the walk that a seed generates."""
    chance = Random(f"walk {seed}")
    names = list(RULES)
    drawn = chance.choices(names, [RULES[name][0] for name in names], k=STEPS)
    return [Step(name, chance.randrange(2**32)) for name in drawn]


def play(ground, steps, tried):
    """Run a walk and its final checks; return its world, or raise `Broken` if a check failed."""
    with sameness.kept():
        return _play(World(ground, tried, rebuild=True), steps, tried)


def _play(world, steps, tried):
    tried["walks"] += 1
    try:
        numbers = checks.queue_numbers()
        for step in steps:
            tried["steps"] += 1
            tried[f": {step.rule}"] += 1
            world.note(f"-- {step.rule} {step.seed}")
            RULES[step.rule][1](world, Random(step.seed))
            numbers = world.check_queues(numbers)
        end(world)
    except Exception as error:
        raise Broken(tell(error, world.story)) from error
    return world


def end(world):
    """Finish all work of a walk, and run the final checks."""
    deaths = sum(world.deaths.values())
    world.wind_down()
    checks.hold(world.faults())
    world.rest()
    checks.hold(world.faults() + checks.unfinished())
    checks.hold(checks.sink_faults(world.submitted, deaths))
    has_orphans = world.has_orphans or world.deaths["submit"] > 0
    checks.hold(checks.stray_files(world.strays, orphans=has_orphans))
    # Late uploads and files of interrupted submissions are deleted with the antique files.
    antiques.delete_antique_files(LONG_AFTER)
    checks.hold(checks.stray_files(set(), orphans=False))
    while world.run("purger").counts["purged"]:
        pass
    checks.hold(checks.left_over() + checks.not_archived(world.submitted))
    checks.hold(checks.archived_too_early())
    world.quiet()
    checks.hold(world.faults())


def walk(ground, seed, tried):
    """Run the walk of a seed; raise WalkFailed with the shortest failing walk."""
    steps = steps_of(seed)
    try:
        play(ground, steps, tried)
    except Broken as error:
        shorter, message = shrink(ground, steps, error)
        told = "\n".join(f"  {step.rule} {step.seed}" for step in shorter)
        raise WalkFailed(
            f"The walk of seed {seed} broke a promise (LONG_SEED={seed} LONG_WALKS=1):\n"
            f"{message}\nShortest walk found, {len(shorter)} of {len(steps)} steps:\n{told}"
        ) from error.__cause__


def shrink(ground, steps, error):
    """Return a shorter failing walk and its error text; drops smaller and smaller pieces."""
    message, until = str(error), time.monotonic() + SHRINK_FOR
    size = len(steps) // 2
    while size and time.monotonic() < until:
        start = 0
        while start < len(steps) and time.monotonic() < until:
            fewer = steps[:start] + steps[start + size :]
            try:
                play(ground, fewer, Counter())
            except Broken as again:
                steps, message = fewer, str(again)
            else:
                start += size
        size //= 2
    return steps, message
