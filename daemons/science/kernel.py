"""Linux system calls that end a process with its parent, and names of exit codes."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
#: The function is looked up at import: a child between fork and exec must not load libraries.
_prctl = getattr(ctypes.CDLL(None), "prctl", None)


def ending(code: int) -> str:
    """Return an exit code of `subprocess` as text, such as ``exit status 1`` or ``SIGKILL``."""
    if code >= 0:
        return f"exit status {code}"
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


def prctl(option: int, value: int | bytes) -> None:
    """Call Linux's prctl, which changes a property of this process; do nothing on other systems."""
    if _prctl is not None:
        _prctl(option, value, 0, 0, 0)


def die_with_parent(parent: int | None = None, by: signal.Signals = signal.SIGTERM) -> None:
    """Let the kernel send this process the signal `by` when its parent ends or is killed.

    Exits at once if the parent has already ended.  Pass the process id of the parent if it is
    known, because the parent may end before this call.
    """
    parent = os.getppid() if parent is None else parent
    prctl(_PR_SET_PDEATHSIG, by)
    # If the parent ended before the call above, the kernel sends no signal.
    if os.getppid() != parent:
        os._exit(1)
