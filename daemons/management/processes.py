"""Starts child processes, restarts them if they end, and stops them in order."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from time import monotonic, sleep
from typing import IO, TYPE_CHECKING

from daemons.science.kernel import die_with_parent, ending, prctl

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from daemons.loop import StopSign

_PR_SET_NAME = 15
#: A child that ends within this many seconds of its start is restarted with a longer pause.
STEADY_AFTER = 30.0
FIRST_PAUSE, MAX_PAUSE = 1.0, 60.0
#: The times that a program, and a fork that finishes its pass, have to stop; seconds.
PROGRAM_STOP_TIMEOUT_SECONDS, STOP_TIMEOUT_SECONDS = 15.0, 30.0
#: The interval at which the children are checked; seconds.
LOOK_EVERY = 0.2


@dataclass(slots=True)
class Children:
    """The child programs of this process.

    Each program has its own process group, so that Ctrl-C reaches only the parent.  The parent
    stops the programs in order.  They also end if the parent is killed.
    """

    started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        output: IO[bytes] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process; its output goes to `output`, by default to the parent's output."""
        process = subprocess.Popen(  # noqa: S603 - fixed commands
            [str(word) for word in command],
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            process_group=0,
            preexec_fn=partial(die_with_parent, os.getpid()),  # noqa: PLW1509 - it takes no lock
        )
        self.started[name] = process
        return process

    def ended(self) -> tuple[str, int] | None:
        """Return the name and exit code of the first process that ended by itself, or None."""
        for name, process in self.started.items():
            if (code := process.poll()) is not None:
                return name, code
        return None

    def restart(self, child: Child, write: Callable[[str], object]) -> None:
        """Restart a program that has ended by itself; call this several times per second."""

        def report(code: int) -> None:
            self.stop(child.name)  # kills the rest of its group
            write(
                f"the {child.name} ended by itself, exit code {code};"
                f" it starts again in {child.pause:g} s"
            )

        child.check(report)

    def kill(self, name: str) -> None:
        """Kill a process by SIGKILL and remove it from `started`; its children are not killed."""
        process = self.started.pop(name)
        process.kill()
        process.wait()

    def stop(self, name: str, within: float = PROGRAM_STOP_TIMEOUT_SECONDS) -> int:
        """Stop one process and return its exit code.

        The process is terminated.  When it has ended, or after `within` seconds, its process group
        is killed.
        """
        process = self.started.pop(name)
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(within)
        # Kill the remaining processes of its group, if there are any.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.wait()

    def stop_all(self) -> None:
        """Stop all processes in the order in which they were started."""
        for name in list(self.started):
            self.stop(name)


@dataclass(slots=True)
class Child:
    """A process that is restarted if it ends by itself.

    The pause before a restart grows if the process ends soon after its start.

    `make` returns a program that it started, or a fork that is not started yet.  `pause` is the
    number of seconds before the next start.
    """

    name: str
    make: Callable[[], subprocess.Popen[bytes] | BaseProcess]
    process: subprocess.Popen[bytes] | BaseProcess | None = None
    pause: float = FIRST_PAUSE
    started_at: float = field(default_factory=monotonic)
    start_at: float = 0.0

    def check(self, report: Callable[[int], object]) -> None:
        """Start the process if its pause is over; report its exit code if it has ended."""
        now = monotonic()
        if self.process is None:
            if now >= self.start_at:
                self.process, self.started_at = self.make(), now
                if isinstance(self.process, BaseProcess):
                    self.process.start()
            return
        process = self.process
        code = process.exitcode if isinstance(process, BaseProcess) else process.poll()
        if code is None:
            return
        if now - self.started_at >= STEADY_AFTER:
            self.pause = FIRST_PAUSE
        report(code)
        self.process, self.start_at = None, now + self.pause
        self.pause = min(2 * self.pause, MAX_PAUSE)


@dataclass(slots=True)
class ProcessGroup:
    """The forks of this process, which are started and stopped in this order."""

    children: list[Child]
    write: Callable[[str], None]

    def run(self, stop: StopSign) -> None:
        """Keep every child running until `stop` is set, then stop all children."""
        try:
            while not stop.is_set():
                for child in self.children:
                    child.check(partial(self._report, child))
                stop.wait(LOOK_EVERY)
        finally:
            self._end()

    def _report(self, child: Child, code: int) -> None:
        self.write(f"{child.name} ended with {ending(code)}; it is restarted in {child.pause:g} s")

    def _end(self) -> None:
        living = [
            child.process for child in self.children if isinstance(child.process, BaseProcess)
        ]
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


def forked_process(name: str, do: Callable[[], object]) -> BaseProcess:
    """Return a process that will be a fork of this process and call `do`; does not start it.

    Modules are loaded once, and memory that is only read is shared.  The new process ends with its
    parent, does not get the terminal's Ctrl-C, and has the name `name` in `ps -o comm` and `top`.
    The parent must have no threads and no connections when it starts the process.
    """
    # Existing objects are excluded from garbage collections, which would write to their memory and
    # so copy it.
    gc.collect()
    gc.freeze()
    return get_context("fork").Process(target=_begin, args=(os.getpid(), name, do), name=name)


def _begin(parent: int, name: str, do: Callable[[], object]) -> None:
    # Reset the signal handlers first: the parent's handlers would not stop this process.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    die_with_parent(parent)
    os.setsid()
    prctl(_PR_SET_NAME, name.encode())
    do()


def wait_until(is_so: Callable[[], bool], *, within: float, look_again: float = 0.05) -> bool:
    """Wait until a condition is true, at most `within` seconds; return whether it is true."""
    give_up_at = monotonic() + within
    while not is_so():
        if monotonic() > give_up_at:
            return False
        sleep(look_again)
    return True
