"""Has Django's clock follow a file, in whole processes: it steps, or runs faster.

The folder of this module stands first in the PYTHONPATH of the processes under test; Python imports
it before anything else.  The file that CLOCK_FILE names says, in seconds since 1970, at which real
moment which moment was shown, and how fast time runs from there.
"""

from __future__ import annotations

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
    """Loads Django's module as ever and gives it the other clock."""

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        module.now = now


class Finder(MetaPathFinder):
    """Finds nothing but that one module."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname != CLOCK:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        spec.loader = Setter(spec.loader)
        return spec


if "CLOCK_FILE" in os.environ:
    sys.meta_path.insert(0, Finder())
