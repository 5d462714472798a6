"""Child processes that end unexpectedly are restarted."""

from __future__ import annotations

import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from daemons.management import processes as room
from daemons.management.processes import Child, Children, wait_until


@pytest.fixture
def children():
    made = Children()
    yield made
    made.stop_all()


class Started:
    """A program that is started, and restarted by `await_start` when it has ended."""

    def __init__(self, children, program, *, pause=0.1):
        self.children, self.program = children, program
        self.began, self.said = [], []
        self.start()
        self.child = Child("one", self.start, children.started["one"], pause)

    def start(self):
        self.began.append(time.monotonic())
        return self.children.start("one", [sys.executable, "-c", self.program])

    def await_start(self, number):
        def has_started():
            self.children.restart(self.child, self.said.append)
            return len(self.began) == number

        assert wait_until(has_started, within=60, look_again=0.01)


def test_child_that_exits_soon_is_restarted_with_growing_delays(children):
    one = Started(children, "raise SystemExit(3)")

    one.await_start(4)

    pauses = [later - sooner for sooner, later in pairwise(one.began)]
    assert all(pause >= least for pause, least in zip(pauses, (0.1, 0.2, 0.4), strict=True))
    assert one.said[0] == "the one ended by itself, exit code 3; it starts again in 0.1 s"
    assert one.said[2].endswith("in 0.4 s")


def test_child_that_ran_for_a_while_is_restarted_without_a_long_delay(children, monkeypatch):
    monkeypatch.setattr(room, "STEADY_AFTER", 0.0)
    monkeypatch.setattr(room, "FIRST_PAUSE", 0.05)
    one = Started(children, "raise SystemExit(3)", pause=50.0)

    one.await_start(3)

    assert all(said.endswith("in 0.05 s") for said in one.said)


def test_process_group_of_an_ended_child_is_killed_before_its_restart(children, tmp_path):
    left = tmp_path / "left"
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    program = f"import subprocess as s, pathlib as p; c = s.Popen({sleeper!r});"
    program += f"p.Path({str(left)!r}).write_text(str(c.pid)); raise SystemExit(1)"
    one = Started(children, program)

    one.await_start(2)

    assert wait_until(lambda: not is_alive(int(left.read_text())), within=30)


def is_alive(pid):
    path = Path(f"/proc/{pid}/status")
    return path.exists() and "\nState:\tZ" not in path.read_text()
