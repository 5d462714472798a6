"""Finds the running processes of the project, and checks the user of a command."""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import shlex
import sys
from typing import TYPE_CHECKING

from django.conf import settings

from scheduler import storage, wakeups
from scheduler.health.rules.alert_texts import SILENT_AFTER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import datetime
    from pathlib import Path


class WrongUser(Exception):
    """The command must be run by the owner of VAR_DIR; the text contains a hint."""


def check_user() -> None:
    """Raise WrongUser unless VAR_DIR belongs to the user of this process.

    The files of another user, such as locks, could not be used by the project.
    """
    var: Path = settings.VAR_DIR
    owner = var.stat().st_uid
    if owner == os.geteuid():
        return
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:  # a container may run under a user id without a name
        name = f"#{owner}"
    raise WrongUser(
        f"{var} belongs to the user {name}, and this command would create files of another user "
        "there.\nHint: run it as this user, with the project's environment: "
        f"`sudo -u {shlex.quote(name)} {shlex.join([sys.executable, *sys.argv])}`."
    )


def running(*, now: datetime) -> list[str]:
    """Return the running `serve` and the running daemons, such as ``validator (process 4711)``.

    Celery workers, and daemons on other machines that share VAR_DIR, are found by their heartbeats.
    Therefore a daemon counts as running until `SILENT_AFTER` has passed since its last heartbeat.
    A web server that was started without `serve` is not found.
    """
    var: Path = settings.VAR_DIR
    processes = dict(_daemons())
    return [*_serves(var), *processes.values(), *_beating(now, processes)]


def _beating(now: datetime, listed_daemons: Collection[str]) -> Iterator[str]:
    for daemon, at in sorted(storage.signs_of_life().items()):
        if daemon not in listed_daemons and (age := now - at) < SILENT_AFTER:
            yield f"{daemon} (last heartbeat {max(0, round(age.total_seconds()))} s ago)"


def _serves(var: Path) -> Iterator[str]:
    for path in sorted(var.glob("serve.*.lock")):
        with path.open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                process = re.match(r"\d+", lock.read())
                yield f"serve (process {process[0] if process else 'unknown'})"


def _daemons() -> Iterator[tuple[str, str]]:
    for name in wakeups.answering_bells():
        daemon, process, *_ = name.split(".")
        yield daemon, f"{daemon} (process {process})"
