"""The table of daemons: names, passes, batches, pauses."""

from __future__ import annotations

from difflib import get_close_matches

from daemons import (
    assimilator,
    file_deleter,
    housekeeper,
    purger,
    timeout_checker,
    transitioner,
    trickle_handler,
    validator,
    work_generator,
)
from daemons.loop import Daemon

#: In the order in which a workunit meets them.
DAEMONS: tuple[Daemon, ...] = (
    Daemon(
        "work_generator",
        work_generator.run_pass,
        batch=1000,
        pause=5.0,
        summary="Keeps a cushion of unsent results for apps whose work is made by a program.",
    ),
    Daemon(
        "transitioner",
        transitioner.run_pass,
        batch=1000,
        pause=1.0,
        summary="Decides what each due workunit needs next: results, validation, an end.",
    ),
    Daemon(
        "timeout_checker",
        timeout_checker.run_pass,
        batch=1000,
        pause=5.0,
        summary="Gives up on results whose deadline has passed, and wakes expired workunits.",
    ),
    Daemon(
        "validator",
        validator.run_pass,
        batch=1000,
        pause=1.0,
        summary="Compares results, chooses the canonical one, grants credit.",
    ),
    Daemon(
        "assimilator",
        assimilator.run_pass,
        batch=1000,
        pause=1.0,
        summary="Hands every finished workunit, good or failed, to the science.",
    ),
    Daemon(
        "trickle_handler",
        trickle_handler.run_pass,
        batch=200,
        pause=2.0,
        summary="Hands what running results say to the handlers of their varieties.",
    ),
    Daemon(
        "file_deleter",
        file_deleter.run_pass,
        batch=1000,
        pause=5.0,
        summary="Deletes files that nobody needs any more.",
    ),
    Daemon(
        "purger",
        purger.run_pass,
        batch=500,
        pause=10.0,
        summary="Archives finished workunits and drops their rows.",
    ),
    Daemon(
        "housekeeper",
        housekeeper.run_pass,
        batch=1000,
        pause=60.0,
        summary="Does what is due now and then: fading averages, scales, leftovers.",
    ),
)
BY_NAME: dict[str, Daemon] = {daemon.name: daemon for daemon in DAEMONS}


class UnknownDaemon(LookupError):
    """There is no such daemon. Hint: the message names those that exist."""


def find(name: str) -> Daemon:
    """The daemon of a name; raises `UnknownDaemon`."""
    if daemon := BY_NAME.get(name):
        return daemon
    near = get_close_matches(name, BY_NAME, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the daemons are {', '.join(BY_NAME)}."
    msg = f"There is no daemon {name!r}. Hint: {hint}"
    raise UnknownDaemon(msg)


def timetable() -> dict[str, dict[str, object]]:
    """Celery's beat schedule, as plain values: each daemon in its queue, at its pauses."""
    return {
        daemon.name: {
            "task": "daemons.run_pass",
            "schedule": daemon.pause,
            "kwargs": {"daemon": daemon.name},
            # A pass that waited for longer than its interval has been overtaken by the next one.
            "options": {"expires": daemon.pause, "queue": daemon.name},
        }
        for daemon in DAEMONS
    }
