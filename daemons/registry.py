"""The table of daemons: names, passes, batch sizes, pauses."""

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

#: In the order in which they process a workunit.
DAEMONS: tuple[Daemon, ...] = (
    Daemon(
        "work_generator",
        work_generator.run_pass,
        batch=1000,
        pause=5.0,
        summary="Keeps a stock of unsent results for apps whose work a program generates.",
    ),
    Daemon(
        "transitioner",
        transitioner.run_pass,
        batch=1000,
        pause=1.0,
        summary="Decides what each due workunit needs next: results, validation or completion.",
    ),
    Daemon(
        "timeout_checker",
        timeout_checker.run_pass,
        batch=1000,
        pause=5.0,
        summary="Times out results whose deadline has passed, and wakes expired workunits.",
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
        summary="Passes every finished workunit, successful or failed, to its app's assimilator.",
    ),
    Daemon(
        "trickle_handler",
        trickle_handler.run_pass,
        batch=200,
        pause=2.0,
        summary="Passes trickle messages of running results to the handlers of their varieties.",
    ),
    Daemon(
        "file_deleter",
        file_deleter.run_pass,
        batch=1000,
        pause=5.0,
        summary="Deletes files that are no longer needed.",
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
        summary="Runs periodic chores: decays averages, sets scales, drops expired rows.",
    ),
)
BY_NAME: dict[str, Daemon] = {daemon.name: daemon for daemon in DAEMONS}


class UnknownDaemon(LookupError):
    """There is no such daemon. Hint: the message names the existing ones."""


def find(name: str) -> Daemon:
    """Return the daemon of a name; raises `UnknownDaemon`."""
    if daemon := BY_NAME.get(name):
        return daemon
    near = get_close_matches(name, BY_NAME, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the daemons are {', '.join(BY_NAME)}."
    msg = f"There is no daemon {name!r}. Hint: {hint}"
    raise UnknownDaemon(msg)


def timetable() -> dict[str, dict[str, object]]:
    """Return Celery's beat schedule: each daemon in its own queue, at the interval of its pause."""
    return {
        daemon.name: {
            "task": "daemons.run_pass",
            "schedule": daemon.pause,
            "kwargs": {"daemon": daemon.name},
            # A message that waited for longer than the interval is superseded by the next one.
            "options": {"expires": daemon.pause, "queue": daemon.name},
        }
        for daemon in DAEMONS
    }
