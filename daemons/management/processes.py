"""Runs all daemons as children: restarts one that dies, stops them in order."""

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
#: A daemon that dies within this many seconds of its start waits longer before the next one.
STEADY_AFTER = 30.0
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
#: How long a child may finish its pass before it is killed; seconds.
PATIENCE = 30.0
#: How often children are looked after; seconds.
LOOK_EVERY = 0.2


def die_with_parent(parent: int | None = None, by: signal.Signals = signal.SIGTERM) -> None:
    """Ask the kernel for a signal when the parent process ends, however it ends (Linux only).

    Who knows its parent's number says so: the parent may have ended before this is called.
    """
    parent = os.getppid() if parent is None else parent
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by)
    # The parent may have died before the kernel was asked.
    if os.getppid() != parent:
        os.kill(os.getpid(), by)


def copy_of_us(name: str, do: Callable[[], object]) -> BaseProcess:
    """Make a process, not started yet, that has all that is loaded here and does one thing.

    Nothing is loaded twice, and what is only read is in memory once. It ends with us, and the
    terminal's Ctrl-C does not reach it; the system's lists (`ps -o comm`, `top`) call it `name`.
    We must have no thread and no connection when it starts.
    """
    # What is there stays out of collections, which would write to it and so make it the copy's own.
    gc.collect()
    gc.freeze()
    return get_context("fork").Process(target=_begin, args=(os.getpid(), name, do), name=name)


def _begin(parent: int, name: str, do: Callable[[], object]) -> None:
    # Our handlers before anything else: they would tell the parent's loop to stop, not ours.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    die_with_parent(parent)
    os.setsid()
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode())
    do()


@dataclass(slots=True)
class Child:
    """One daemon's process, made anew by `make`, and when to start it again if it died."""

    name: str
    make: Callable[[], BaseProcess]
    process: BaseProcess | None = None
    started_at: float = 0.0
    pause: float = FIRST_PAUSE
    start_at: float = 0.0

    def start(self) -> None:
        """Start the process."""
        self.process = self.make()
        self.process.start()
        self.started_at = monotonic()


@dataclass(slots=True)
class Family:
    """All children, in the order in which they are started; they stop in the same order."""

    children: list[Child]
    say: Callable[[str], None]

    def run(self, stop: StopSign) -> None:
        """Keep every child running until `stop` is set, then end them."""
        try:
            while not stop.is_set():
                for child in self.children:
                    self._look_after(child)
                stop.wait(LOOK_EVERY)
        finally:
            self._end()

    def _look_after(self, child: Child) -> None:
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
        self.say(f"{child.name} ended with {_status(code)}; it starts again in {child.pause:g} s")
        child.process = None
        child.start_at = now + child.pause
        child.pause = min(2 * child.pause, LONGEST_PAUSE)

    def _end(self) -> None:
        living = [child.process for child in self.children if child.process is not None]
        for process in living:
            process.terminate()
        deadline = monotonic() + PATIENCE
        for process in living:
            process.join(max(0.0, deadline - monotonic()))
            if process.exitcode is None:
                self.say(f"{process.name} did not finish within {PATIENCE:g} s and was killed")
                process.kill()
                process.join()


def _status(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    return signal.Signals(-code).name
