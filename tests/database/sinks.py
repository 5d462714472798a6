"""Assimilators for tests, some of them named as ``python:tests.database.sinks.…``."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

from daemons.science.interfaces import Defer, TransientScienceError
from scheduler.models import Team
from tests.conftest import NOON

#: What was handed over to `remember`, and what happens before it returns.
handed_over: list[Any] = []
before_returning: list[Any] = []


def remember(assimilation: Any) -> None:
    """Keep what was handed over."""
    handed_over.append(assimilation)
    for act in before_returning:
        act()


#: What `ask` returns, or raises.
answers: list[Any] = []


def ask(assimilation: Any) -> Any:
    """Do what the test wants."""
    answer = answers.pop(0) if answers else None
    if isinstance(answer, Exception):
        raise answer
    return answer[0] if isinstance(answer, tuple) else answer


def fail(assimilation: Any) -> None:
    """Take nothing."""
    message = f"no room for {assimilation.workunit_name}"
    raise OSError(message)


def write_a_row(assimilation: Any) -> None:
    """Write to our own database, and stumble over workunits named so."""
    Team.objects.create(name=assimilation.workunit_name, created_at=NOON)
    if "stumble" in assimilation.workunit_name:
        raise OSError("after the row was written")


write_a_row.transactional = True  # type: ignore[attr-defined]


# These run in the worker process.


def leave_a_note(assimilation: Any) -> None:
    """Write what was told into the folder that the app's options name."""
    folder = Path(assimilation.options["folder"])
    told = [assimilation.key, assimilation.app, os.getpid(), list(assimilation.errors)]
    (folder / assimilation.workunit_name).write_text(json.dumps(told))


def stumble(assimilation: Any) -> None:
    """Take every workunit but those that are named after what befalls them."""
    if "raise" in assimilation.workunit_name:
        raise RuntimeError(f"cannot take {assimilation.workunit_name}")
    if "hang" in assimilation.workunit_name:
        Event().wait()
    if "crash" in assimilation.workunit_name:
        os._exit(77)
    leave_a_note(assimilation)


def not_yet(assimilation: Any) -> Defer:
    """Ask for another hour."""
    return Defer(timedelta(hours=1), "the partner's answer is missing")


def passing_trouble(assimilation: Any) -> None:
    """Have a trouble that may heal."""
    raise TransientScienceError("the archive is away")
