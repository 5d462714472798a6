"""Child processes that end with their parent, even if it is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

STOP_WITHIN = 15.0
#: A child that ends sooner after its start is restarted with a longer pause; seconds.
STEADY_AFTER = 30.0
FIRST_PAUSE, MAX_PAUSE = 1.0, 60.0
PR_SET_PDEATHSIG = 1


@dataclass(slots=True)
class Children:
    """Processes in their own groups: Ctrl-C reaches only the parent, which stops them in order."""

    started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        output: IO[bytes] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process named `name`; its output goes to `output`, or to the parent's."""
        process = subprocess.Popen(  # noqa: S603 - fixed commands
            [str(word) for word in command],
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            process_group=0,
            preexec_fn=_dies_with(os.getpid()),  # noqa: PLW1509 - it takes no lock
        )
        self.started[name] = process
        return process

    def ended(self) -> tuple[str, int] | None:
        """Return the first process that has ended by itself, and its exit code, or None."""
        for name, process in self.started.items():
            if (code := process.poll()) is not None:
                return name, code
        return None

    def kill(self, name: str) -> None:
        """Kill one process by SIGKILL, without its children, and remove it."""
        process = self.started.pop(name)
        process.kill()
        process.wait()

    def stop(self, name: str, within: float = STOP_WITHIN) -> int:
        """Terminate one process, by SIGKILL after `within` seconds; return its exit code."""
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
        """Stop all, in the order in which they were started: the server before its daemons."""
        for name in list(self.started):
            self.stop(name)


@dataclass(slots=True)
class Revival:
    """Restarts one child whenever it ends by itself, with growing pauses if it ends soon.

    `pause` is the number of seconds before the next start.
    """

    children: Children
    name: str
    start: Callable[[], object]
    say: Callable[[str], object]
    pause: float = FIRST_PAUSE
    _began: float = field(default_factory=time.monotonic)
    _again_at: float | None = None

    def look(self) -> None:
        """Restart the child if needed; to be called several times a second."""
        now = time.monotonic()
        if self._again_at is not None:
            if now >= self._again_at:
                self._again_at, self._began = None, now
                self.start()
            return
        if self.children.started[self.name].poll() is None:
            return
        if now - self._began >= STEADY_AFTER:
            self.pause = FIRST_PAUSE
        code = self.children.stop(self.name)  # also kills the rest of its group
        self.say(
            f"the {self.name} ended by itself, exit code {code};"
            f" it starts again in {self.pause:g} s"
        )
        self._again_at = now + self.pause
        self.pause = min(2 * self.pause, MAX_PAUSE)


def wait_until(is_so: Callable[[], bool], *, within: float, look_again: float = 0.05) -> bool:
    """Wait at most `within` seconds for a condition; returns whether it is true."""
    give_up_at = time.monotonic() + within
    while not is_so():
        if time.monotonic() > give_up_at:
            return False
        time.sleep(look_again)
    return True


def _dies_with(parent: int) -> Callable[[], None] | None:
    """Return a `preexec_fn` that makes a child end with `parent`; None if it is not Linux."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)  # loaded before the fork: nothing may be imported after it

    def prepare() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent died between the fork and this line
            os._exit(1)

    return prepare
