"""Assimilators that run in the worker process; few imports, for a quick start.

Apps name them as ``python:tests.database.far_sinks.…``.
"""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

from daemons.science.interfaces import Defer, TransientScienceError


def leave_a_note(assimilation: Any) -> None:
    """Write fields of the assimilation to a file in the folder from the app's options."""
    folder = Path(assimilation.options["folder"])
    told = [assimilation.key, assimilation.app, os.getpid(), list(assimilation.errors)]
    (folder / assimilation.workunit_name).write_text(json.dumps(told))


def stumble(assimilation: Any) -> None:
    """Write a note, or raise, hang or crash if the workunit's name contains that word."""
    if "raise" in assimilation.workunit_name:
        raise RuntimeError(f"cannot take {assimilation.workunit_name}")
    if "hang" in assimilation.workunit_name:
        Event().wait()
    if "crash" in assimilation.workunit_name:
        os._exit(77)
    leave_a_note(assimilation)


def not_yet(assimilation: Any) -> Defer:
    """Defer the assimilation by an hour."""
    return Defer(timedelta(hours=1), "the partner's answer is missing")


def passing_trouble(assimilation: Any) -> None:
    """Raise an error that may be temporary."""
    raise TransientScienceError("the archive is away")
