"""All daemons as one family of processes: restarted when they die, ended in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from daemons.loop import StopSign
from daemons.management import processes
from daemons.management.processes import Child, Family

PATIENCE = 20.0

#: Writes its process id beside itself, and runs until it is told to end.
STEADY = "import os, pathlib, signal, sys, time\npathlib.Path(sys.argv[1]).write_text(str(os.getpid()))\n"
UNTIL_TERM = STEADY + "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\ntime.sleep(60)\n"
DEAF = STEADY + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)\n"


def until(condition, patience=PATIENCE):
    """Wait until something is so; the test fails if it never is."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    pytest.fail("it never came about")


def a_child(tmp_path, name, script=UNTIL_TERM):
    return Child(name, [sys.executable, "-c", script, str(tmp_path / name)])


def pid_in(path):
    return int(path.read_text()) if path.exists() and path.read_text() else 0


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()


class Running:
    """A family that runs in a thread."""

    def __init__(self, children):
        self.said = []
        self.stop = StopSign()
        self.family = Family(children, self.said.append)
        self._thread = threading.Thread(target=self.family.run, args=(self.stop,), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_error):
        self.stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


def test_every_child_runs_and_ends_when_told(tmp_path):
    with Running([a_child(tmp_path, "one"), a_child(tmp_path, "two")]):
        pids = [until(lambda name=name: pid_in(tmp_path / name)) for name in ("one", "two")]
        assert all(is_alive(pid) for pid in pids)
    assert not any(is_alive(pid) for pid in pids)


def test_a_child_that_dies_is_started_again(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "LOOK_EVERY", 0.02)
    child = a_child(tmp_path, "one")
    child.pause = 0.05
    with Running([child]) as running:
        first = until(lambda: pid_in(tmp_path / "one"))
        os.kill(first, signal.SIGKILL)
        second = until(lambda: (pid := pid_in(tmp_path / "one")) != first and pid)
        assert is_alive(second)
    assert running.said == ["one ended with SIGKILL; it starts again in 0.05 s"]


def test_a_child_that_keeps_dying_is_started_ever_more_rarely(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "LOOK_EVERY", 0.01)
    child = a_child(tmp_path, "one", script="raise SystemExit(3)")
    child.pause = 0.05
    with Running([child]) as running:
        until(lambda: len(running.said) == 3)
    assert running.said[:3] == [
        f"one ended with exit status 3; it starts again in {pause} s" for pause in (0.05, 0.1, 0.2)
    ]


def test_a_child_that_does_not_end_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "PATIENCE", 0.2)
    with Running([a_child(tmp_path, "deaf", script=DEAF)]) as running:
        pid = until(lambda: pid_in(tmp_path / "deaf"))
    assert not is_alive(pid)
    assert running.said == ["deaf did not finish within 0.2 s and was killed"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the Linux kernel")
def test_a_child_ends_with_its_parent_even_if_that_is_killed(tmp_path):
    script = (
        "from daemons.management.processes import die_with_parent\ndie_with_parent()\n" + UNTIL_TERM
    )
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            (
                "import subprocess, sys, time\n"
                "subprocess.Popen([sys.executable, '-c', sys.argv[1], sys.argv[2]])\n"
                "time.sleep(60)"
            ),
            script,
            str(tmp_path / "orphan"),
        ],
        cwd=Path(__file__).parents[2],
    )
    pid = until(lambda: pid_in(tmp_path / "orphan"))
    parent.kill()
    parent.wait()
    until(lambda: not is_alive(pid))
