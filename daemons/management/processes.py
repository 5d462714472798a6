"""Runs all daemons as children: restarts one that dies, stops them in order."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemons.loop import StopSign

_PR_SET_PDEATHSIG = 1
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


@dataclass(slots=True)
class Child:
    """One daemon's process, and when to start it again if it died."""

    name: str
    command: Sequence[str]
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    pause: float = FIRST_PAUSE
    start_at: float = 0.0

    def start(self) -> None:
        """Start the process; a session of its own keeps the terminal's Ctrl-C from it."""
        self.process = subprocess.Popen(  # noqa: S603  our own command line
            self.command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            # From its first moment: it would ask too late if we ended while it still loads.
            preexec_fn=partial(die_with_parent, os.getpid()),  # noqa: PLW1509 - it takes no lock
        )
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
        code = child.process.poll()
        if code is None:
            return
        is_steady = now - child.started_at >= STEADY_AFTER
        child.pause = FIRST_PAUSE if is_steady else child.pause
        self.say(f"{child.name} ended with {_status(code)}; it starts again in {child.pause:g} s")
        child.process = None
        child.start_at = now + child.pause
        child.pause = min(2 * child.pause, LONGEST_PAUSE)

    def _end(self) -> None:
        for child in self.children:
            if child.process is not None and child.process.poll() is None:
                child.process.terminate()
        deadline = monotonic() + PATIENCE
        for child in self.children:
            if child.process is None:
                continue
            try:
                child.process.wait(max(0.0, deadline - monotonic()))
            except subprocess.TimeoutExpired:
                self.say(f"{child.name} did not finish within {PATIENCE:g} s and was killed")
                child.process.kill()
                child.process.wait()


def _status(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    return signal.Signals(-code).name
