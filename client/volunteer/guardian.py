"""Ends the programs of a client that was killed.

The guardian is a process in its own session. It reads a pipe whose other end only the client has.
When the client no longer exists, the pipe is closed, and the guardian kills the programs. A client
that stops normally ends the guardian first. Programs with BOINC's library end within ten seconds
if the client is missing, but other programs continue.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from volunteer.mailbox import FolderInUseError, locked
from volunteer.runner import kill_strays

_CODE = "import sys; sys.path[:0] = [sys.argv[1]]; from volunteer.guardian import main; main()"
_ROUNDS = 20
_ROUND_SECONDS = 0.1
_LOCK_SECONDS = 2.0


class Guardian:
    """The guardian process of one client folder."""

    def __init__(self, home: Path) -> None:
        package = str(Path(__file__).resolve().parent.parent)
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter and module
            [sys.executable, "-I", "-c", _CODE, package, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def close(self) -> None:
        """Kill the guardian process. The client must have ended its programs before."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


def main() -> None:
    """Wait for the end of the client, then kill the programs in its slots."""
    sys.stdin.buffer.read()
    end_programs(Path(sys.argv[2]))


def end_programs(home: Path) -> None:
    """Kill all programs in the slots, unless a new client has locked the folder."""
    for _ in range(_ROUNDS):
        try:
            # When a client dies, its pipe may be closed before its lock is released.
            with locked(home, timeout_seconds=_LOCK_SECONDS):
                count = kill_strays(home / "slots")
        except FolderInUseError:
            return
        if not count:
            return
        # A program may have started another one meanwhile.
        time.sleep(_ROUND_SECONDS)
