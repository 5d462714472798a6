"""Makes a walk depend on its seed alone, and not on earlier work of its process."""

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

#: The key of random choices; a project's own key differs on each machine.
CHANCE_KEY = "walk"
#: So few days of the ledger are made ahead: each walk makes its own, and a table takes long.
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
#: The same for ever: the columns of statements, keys as long as their files stay, and processes in
#: which science runs that knows only what it is told.
_HARMLESS = {
    "scheduler.sql.prepared._columns_by_statement",
    "scheduler.signing._loaded",
    "daemons.science.worker._own",
}
_MEMORY = re.compile("_[a-z]")


def forget():
    """Clear the caches of the process, as if it had died; also done before each walk."""
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
    """The size of each module-level cache of the server, without `_HARMLESS`."""
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
    """Within the block, caches are empty and nothing depends on the speed of the process."""
    forget()
    readings, project = count(), settings.PROJECT
    with ExitStack() as stack:
        stack.callback(setattr, settings, "PROJECT", project)
        settings.PROJECT = replace(project, chance_key=CHANCE_KEY)
        stack.enter_context(patch.object(purger, "DAYS_AHEAD", DAYS_AHEAD))
        for reader, name in _READERS:
            stack.enter_context(patch.object(reader, name, lambda: next(readings) * MOMENT))
        yield
