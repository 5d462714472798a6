"""Lists the daemons, with their passes, batch sizes and pauses."""

from __future__ import annotations

import sys
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
from daemons.loop import Daemon, Pass


def _daemon(run_pass: Pass, *, batch: int, pause: float) -> Daemon:
    """Return the definition of the daemon that runs a pass.

    The name and the summary are taken from the module of the pass.
    """
    name, module = run_pass.__module__.rpartition(".")[2], sys.modules[run_pass.__module__]
    return Daemon(name, run_pass, batch, pause, summary=str(module.__doc__).partition("\n")[0])


#: The daemons, in the order in which they process a workunit.
DAEMONS: tuple[Daemon, ...] = (
    _daemon(work_generator.run_pass, batch=1000, pause=5.0),
    _daemon(transitioner.run_pass, batch=1000, pause=1.0),
    _daemon(timeout_checker.run_pass, batch=1000, pause=5.0),
    _daemon(validator.run_pass, batch=1000, pause=1.0),
    _daemon(assimilator.run_pass, batch=1000, pause=1.0),
    _daemon(trickle_handler.run_pass, batch=200, pause=2.0),
    _daemon(file_deleter.run_pass, batch=1000, pause=5.0),
    _daemon(purger.run_pass, batch=500, pause=10.0),
    # Under Celery a daemon sends a heartbeat once per pause, and is silent after 40 s without one.
    _daemon(housekeeper.run_pass, batch=1000, pause=20.0),
)
BY_NAME: dict[str, Daemon] = {daemon.name: daemon for daemon in DAEMONS}


class UnknownDaemon(LookupError):
    """No daemon has this name. Hint: use a name that the error text suggests."""


def find(name: str) -> Daemon:
    """Return the daemon with this name; raises `UnknownDaemon`."""
    if daemon := BY_NAME.get(name):
        return daemon
    near = get_close_matches(name, BY_NAME, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the daemons are {', '.join(BY_NAME)}."
    msg = f"There is no daemon {name!r}. Hint: {hint}"
    raise UnknownDaemon(msg)


def timetable() -> dict[str, dict[str, object]]:
    """Return Celery's beat schedule, in which each daemon has its own queue.

    A daemon's `pause` is the interval of its passes.
    """
    return {
        daemon.name: {
            "task": "daemons.run_pass",
            "schedule": daemon.pause,
            "kwargs": {"daemon": daemon.name},
            # A message that is older than the interval is discarded: the next one replaces it.
            "options": {"expires": daemon.pause, "queue": daemon.name},
        }
        for daemon in DAEMONS
    }
