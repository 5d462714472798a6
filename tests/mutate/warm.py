"""Runs pytest in forks of a process that has imported Django and pytest.

This saves two thirds of the time of the start.  Each run is a process of its own: no run sees what
another run changes.  The server (`python -m tests.mutate.warm`) reads a request from each line of
its standard input, and writes an answer to its standard output.  It imports no module of the
project that a switch may change, except for those that `django.setup()` imports: pytest imports all
others in the fork, after the rule was switched off.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
#: The maximum number of characters of a line of an output, and of the end of an output.
_LINE, _OUTPUT = 500, 20_000
#: Modules of packages that every run needs: pytest's plug-ins, and what creates a test database.
NEEDED_BY_ALL = (
    "_hypothesis_pytestplugin",
    "anyio.pytest_plugin",
    "django.core.management.commands.migrate",
    "django.db.migrations.executor",
    "django.test.client",
    "execnet",
    "hypothesis.strategies",
    "jinja2",
    "pytest_cov.plugin",
    "pytest_django.live_server_helper",
    "pytest_django.plugin",
    "pytest_randomly",
    "pytest_socket",
    "xdist.plugin",
)


class WarmPytest:
    """Runs pytest, one run at a time."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.mutate.warm"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, words: Sequence[str], environment: dict[str, str], *, seconds: float
    ) -> tuple[int | None, str]:
        """Return the exit status and the output of pytest; the status is None after a time-out."""
        request = {"words": list(words), "environment": environment, "seconds": seconds}
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        answer = json.loads(self._server.stdout.readline())
        return answer["status"], answer["output"]

    def close(self) -> None:
        """End the server."""
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()


def _serve() -> None:
    import django

    django.setup()
    import pytest

    for name in NEEDED_BY_ALL:
        import_module(name)
    # The plug-ins were imported before pytest could rewrite their assertions, of which it warns.
    quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    for line in sys.stdin:
        request = json.loads(line)
        # In pytest's common folder, simultaneous runs disturb each other when they clean it up.
        with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory() as folder:
            own = ["--basetemp", f"{folder}/run"]
            child = os.fork()
            if child == 0:
                os.setsid()
                os.environ.update(request["environment"])
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
                _exit(pytest.main([*quiet, *own, *request["words"]]))
            status = _wait(child, request["seconds"])
            output.seek(0)
            text = output.read().decode("utf-8", "replace")
        sys.stdout.write(json.dumps({"status": status, "output": shortened(text)}) + "\n")
        sys.stdout.flush()


def shortened(text: str) -> str:
    """Return the end of an output, with the beginning of each of its lines.

    The line that names a failed test may be long, because its id has the values of its parameters.
    """
    return "\n".join(line[:_LINE] for line in text.splitlines())[-_OUTPUT:]


def _exit(status: int) -> NoReturn:
    """End a fork; its memory is not released object by object, which takes half a second."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _wait(child: int, seconds: float) -> int | None:
    """Return the exit status of a child; after `seconds`, kill it and its group, return None."""
    deadline = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.02)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    _serve()
