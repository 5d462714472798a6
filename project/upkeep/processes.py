"""Finds the processes of the project that are running on this machine."""

from __future__ import annotations

import fcntl
import re
from typing import TYPE_CHECKING

from django.conf import settings

from scheduler import wakeups

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def running() -> list[str]:
    """Return the running `serve` and the running daemons, such as ``validator (process 4711)``.

    A web server that was started without `serve` is not found.
    """
    var: Path = settings.VAR_DIR
    return [*_serves(var), *_daemons()]


def _serves(var: Path) -> Iterator[str]:
    for path in sorted(var.glob("serve.*.lock")):
        with path.open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                process = re.match(r"\d+", lock.read())
                yield f"serve (process {process[0] if process else 'unknown'})"


def _daemons() -> Iterator[str]:
    for name in wakeups.answering_bells():
        daemon, process, *_ = name.split(".")
        yield f"{daemon} (process {process})"
