"""Changes the clock of the processes under test, and simulates a full disk.

The folder of this module stands first in the PYTHONPATH of the processes under test; Python imports
it before anything else.  The file CLOCK_FILE has three numbers: a real time and the simulated time
at that moment, both in seconds since 1970, and the speed of the simulated clock.  While the file
FULL_DISK_FILE exists, files in the folders of uploads and results cannot be created or written.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from datetime import UTC, datetime
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from pathlib import Path

CLOCK = "django.utils.timezone"


def now():
    said = Path(os.environ["CLOCK_FILE"]).read_text(encoding="ascii")
    began, shown, rate = map(float, said.split())
    return datetime.fromtimestamp(shown + rate * (time.time() - began), UTC)


class Setter(Loader):
    """Loads `django.utils.timezone` and replaces its function `now`."""

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        module.now = now


class Finder(MetaPathFinder):
    """Finds the module `django.utils.timezone` only."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname != CLOCK:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        spec.loader = Setter(spec.loader)
        return spec


def refuse_to_write(event, args):
    """Raise ENOSPC for writes below `FILLED` while FULL_DISK_FILE exists; an audit hook."""
    path = args[TARGET[event]] if event in TARGET else None
    if not isinstance(path, str) or (event == "open" and not args[2] & WRITING):
        return
    if path.startswith(FILLED) and os.path.exists(os.environ["FULL_DISK_FILE"]):  # noqa: PTH110
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


#: Audit events that create files or folders -> the index of the argument with the path.
TARGET = {"open": 0, "os.mkdir": 0, "os.link": 1}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
FILLED = tuple(f"{os.environ.get('VAR_DIR')}/{folder}/" for folder in ("upload", "results"))

if "FULL_DISK_FILE" in os.environ:
    sys.addaudithook(refuse_to_write)
if "CLOCK_FILE" in os.environ:
    sys.meta_path.insert(0, Finder())
