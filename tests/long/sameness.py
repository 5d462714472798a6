"""Makes walks reproducible: a walk depends on its seed only."""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from unittest.mock import patch

from django.conf import settings

from daemons import assimilator, low_water, purger, timeout_checker, transitioner, trickle_handler
from daemons import validator as validators
from daemons.validator import turns
from scheduler.dispatch import catalog, search
from scheduler.storage import archive, notices

#: The value of `chance_key` during walks, because each project has a random one.
CHANCE_KEY = "walk"
#: Days for which ledger partitions are created in advance: few, because each walk creates them.
DAYS_AHEAD = 2
#: Modules that read elapsed seconds: each reading is made `MOMENT` later than the last.
_READERS = (
    (low_water, "monotonic"),
    (assimilator, "monotonic"),
    (turns, "monotonic"),
    (trickle_handler, "monotonic"),
    (search, "perf_counter"),
)
MOMENT = 1 / 1024
#: Caches that do not influence a walk: columns of statements, signing keys, stateless worker
#: processes, and versions of plug-ins, which do not change.
_HARMLESS = {
    "scheduler.sql.prepared._columns_by_statement",
    "scheduler.signing._loaded",
    "daemons.science.worker._own",
    "daemons.science.worker._scanned",
}
_MEMORY = re.compile("_[a-z]")


def forget():
    """Clear the caches of the process, as its death would."""
    for daemon in (assimilator, purger, transitioner, validators):
        daemon._queues.clear()
    assimilator._unsettled.clear()
    validators._warned.clear()
    turns._hangs.clear()
    turns._suspended_until.clear()
    timeout_checker._counted_at.clear()
    timeout_checker._logged_for = None
    trickle_handler._logged_unknown.clear()
    search._host_scan_cursors._cursors.clear()
    search.low_water_marks._marks.clear()
    catalog._cached = None
    notices._notices.clear()
    archive._ends.clear()


def memories():
    """Return the size of each module-level cache of the server, without `_HARMLESS`."""
    return {
        f"{module.__name__}.{name}": len(value)
        for module in list(sys.modules.values())
        if module.__name__.partition(".")[0] in {"daemons", "scheduler"}
        for name, value in vars(module).items()
        if isinstance(value, dict | list | set) and _MEMORY.match(name)
        if f"{module.__name__}.{name}" not in _HARMLESS
    }


@contextmanager
def kept():
    """Begin with empty caches, and replace the chance key and all timers within the block."""
    forget()
    readings, project = count(), settings.PROJECT
    with ExitStack() as stack:
        stack.callback(setattr, settings, "PROJECT", project)
        settings.PROJECT = replace(project, chance_key=CHANCE_KEY)
        stack.enter_context(patch.object(purger, "DAYS_AHEAD", DAYS_AHEAD))
        for reader, name in _READERS:
            stack.enter_context(patch.object(reader, name, lambda: next(readings) * MOMENT))
        yield
