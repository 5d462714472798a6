"""Runs all daemons as child processes: restarts dead ones, stops them in order."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from dataclasses import dataclass
from multiprocessing import get_context
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.process import BaseProcess

    from daemons.loop import StopSign

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
#: A daemon that dies within this many seconds of its start is restarted with a longer pause.
STEADY_AFTER = 30.0
FIRST_PAUSE, MAX_PAUSE = 1.0, 60.0
#: How long a child has to finish its pass before it is killed; seconds.
STOP_TIMEOUT_SECONDS = 30.0
#: How often the children are checked; seconds.
LOOK_EVERY = 0.2


def die_with_parent(parent: int | None = None, by: signal.Signals = signal.SIGTERM) -> None:
    """Let the kernel signal this process when its parent ends, for any reason (Linux only).

    Pass the process id of the parent if it is known: the parent may end before this call.
    """
    parent = os.getppid() if parent is None else parent
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by)
    # The parent may have ended before the call above.
    if os.getppid() != parent:
        os.kill(os.getpid(), by)


def forked_process(name: str, do: Callable[[], object]) -> BaseProcess:
    """Return a process, not started yet, that is a fork of this one and calls `do`.

    Modules are loaded once, and memory that is only read is shared.  The process ends with this
    one, does not get the terminal's Ctrl-C, and has the name `name` in `ps -o comm` and `top`.
    This process must have no threads and no connections when it starts.
    """
    # Existing objects are excluded from garbage collections, which would write to their memory and
    # so copy it.
    gc.collect()
    gc.freeze()
    return get_context("fork").Process(target=_begin, args=(os.getpid(), name, do), name=name)


def _begin(parent: int, name: str, do: Callable[[], object]) -> None:
    # Reset the handlers first: those of the parent would stop the parent's loop, not this one.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    die_with_parent(parent)
    os.setsid()
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode())
    do()


@dataclass(slots=True)
class Child:
    """One daemon's process, created by `make`, and the time to restart it if it died."""

    name: str
    make: Callable[[], BaseProcess]
    process: BaseProcess | None = None
    started_at: float = 0.0
    pause: float = FIRST_PAUSE
    start_at: float = 0.0

    def start(self) -> None:
        self.process = self.make()
        self.process.start()
        self.started_at = monotonic()


@dataclass(slots=True)
class ProcessGroup:
    """All children, in the order in which they are started and stopped."""

    children: list[Child]
    write: Callable[[str], None]

    def run(self, stop: StopSign) -> None:
        """Keep every child running until `stop` is set, then end them."""
        try:
            while not stop.is_set():
                for child in self.children:
                    self._check(child)
                stop.wait(LOOK_EVERY)
        finally:
            self._end()

    def _check(self, child: Child) -> None:
        now = monotonic()
        if child.process is None:
            if now >= child.start_at:
                child.start()
            return
        code = child.process.exitcode
        if code is None:
            return
        is_steady = now - child.started_at >= STEADY_AFTER
        child.pause = FIRST_PAUSE if is_steady else child.pause
        self.write(f"{child.name} ended with {_status(code)}; it is restarted in {child.pause:g} s")
        child.process = None
        child.start_at = now + child.pause
        child.pause = min(2 * child.pause, MAX_PAUSE)

    def _end(self) -> None:
        living = [child.process for child in self.children if child.process is not None]
        for process in living:
            process.terminate()
        deadline = monotonic() + STOP_TIMEOUT_SECONDS
        for process in living:
            process.join(max(0.0, deadline - monotonic()))
            if process.exitcode is None:
                self.write(
                    f"{process.name} did not finish within {STOP_TIMEOUT_SECONDS:g} s: killed"
                )
                process.kill()
                process.join()


def _status(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    return signal.Signals(-code).name
