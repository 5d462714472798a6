"""The process group of all daemons: children are restarted, and stopped in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from daemons.loop import StopSign
from daemons.management import processes
from daemons.management.processes import Child, ProcessGroup

PATIENCE = 20.0

#: Children are spawned, not forked, because the test process has threads.
SPAWN = multiprocessing.get_context("spawn")


def steady(path):
    """Write the process id to a file, and run until SIGTERM."""
    path.write_text(str(os.getpid()))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    time.sleep(60)


def deaf(path):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    path.write_text(str(os.getpid()))
    time.sleep(60)


def ill(path):
    raise SystemExit(3)


def until(condition, patience=PATIENCE):
    """Return the condition's first true value; fail after `patience` seconds."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    pytest.fail("it never came about")


def a_child(tmp_path, name, do=steady):
    return Child(name, partial(SPAWN.Process, target=do, args=(tmp_path / name,), name=name))


def pid_in(path):
    return int(path.read_text()) if path.exists() and path.read_text() else 0


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()


class Running:
    """A context manager that runs a process group in a thread."""

    def __init__(self, children):
        self.said = []
        self.stop = StopSign()
        self.family = ProcessGroup(children, self.said.append)
        self._thread = threading.Thread(target=self.family.run, args=(self.stop,), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_error):
        self.stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


def test_every_child_runs_and_ends_on_request(tmp_path):
    with Running([a_child(tmp_path, "one"), a_child(tmp_path, "two")]):
        pids = [until(lambda name=name: pid_in(tmp_path / name)) for name in ("one", "two")]
        assert all(is_alive(pid) for pid in pids)
    assert not any(is_alive(pid) for pid in pids)


def test_child_that_dies_is_restarted(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "LOOK_EVERY", 0.02)
    child = a_child(tmp_path, "one")
    child.pause = 0.05
    with Running([child]) as running:
        first = until(lambda: pid_in(tmp_path / "one"))
        os.kill(first, signal.SIGKILL)
        second = until(lambda: (pid := pid_in(tmp_path / "one")) != first and pid)
        assert is_alive(second)
    assert running.said == ["one ended with SIGKILL; it is restarted in 0.05 s"]


def test_child_that_keeps_dying_is_restarted_with_growing_delays(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "LOOK_EVERY", 0.01)
    child = a_child(tmp_path, "one", do=ill)
    child.pause = 0.05
    with Running([child]) as running:
        until(lambda: len(running.said) == 3)
    assert running.said[:3] == [
        f"one ended with exit status 3; it is restarted in {pause} s" for pause in (0.05, 0.1, 0.2)
    ]


def test_child_that_does_not_stop_in_time_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "STOP_TIMEOUT_SECONDS", 0.2)
    with Running([a_child(tmp_path, "deaf", do=deaf)]) as running:
        pid = until(lambda: pid_in(tmp_path / "deaf"))
    assert not is_alive(pid)
    assert running.said == ["deaf did not finish within 0.2 s: killed"]


#: A program that runs until it is stopped, with one fork that writes its ids to a file.
PARENT = """
import os, signal, sys, time
from pathlib import Path
from daemons.loop import StopSign, stopping_on_signals
from daemons.management.processes import Child, ProcessGroup, forked_process

def do():
    path = Path(sys.argv[1])
    comm = Path("/proc/self/comm").read_text().strip()
    path.with_suffix(".new").write_text(f"{os.getpid()} {os.getsid(0)} {comm} {'json' in sys.modules}")
    path.with_suffix(".new").rename(path)
    time.sleep(60)

import json
stop = StopSign()
with stopping_on_signals(stop, print):
    ProcessGroup([Child("a_daemon", lambda: forked_process("a_daemon", do))], print).run(stop)
"""


@pytest.fixture
def parent(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "copy")],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def said_by_copy(tmp_path):
    path = tmp_path / "copy"
    pid, session, *words = until(lambda: path.exists() and path.read_text().split())
    return int(pid), int(session), words


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the Linux kernel")
def test_forked_process_has_loaded_modules_a_name_and_its_own_session(tmp_path, parent):
    pid, session, words = said_by_copy(tmp_path)
    assert pid != parent.pid
    assert session == pid, "a Ctrl-C in the parent's terminal does not reach it"
    assert words == ["a_daemon", "True"]


def test_forked_process_does_not_use_its_parents_signal_handlers(tmp_path, parent):
    pid, _, _ = said_by_copy(tmp_path)
    (tmp_path / "copy").unlink()
    os.kill(pid, signal.SIGTERM)
    again, _, _ = said_by_copy(tmp_path)
    assert again != pid
    parent.terminate()
    said, _ = parent.communicate(timeout=PATIENCE)
    assert "a_daemon ended with SIGTERM; it is restarted in 1 s" in said
    assert not is_alive(again)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the Linux kernel")
def test_forked_process_ends_with_its_parent_even_if_the_parent_is_killed(tmp_path, parent):
    pid, _, _ = said_by_copy(tmp_path)
    parent.kill()
    parent.wait()
    until(lambda: not is_alive(pid))
