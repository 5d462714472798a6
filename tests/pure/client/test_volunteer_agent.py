"""The client's event loop waits until an event arrives or the time is over."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

from volunteer.agent import Agent, Tools
from volunteer.config import Rules
from volunteer.display import Lines
from volunteer.pool import PoolLink
from volunteer.records import HeldResult, Phase, Project, State, TrickleUp
from volunteer.runner import group_usage
from volunteer.slot import Home
from volunteer.transport import HttpTransport
from volunteer.wire.messages import HostFacts, Result

if TYPE_CHECKING:
    from pathlib import Path


def test_wake_ends_the_pause_of_the_main_loop(tmp_path: Path) -> None:
    tools = Tools(Home(tmp_path), HostFacts("cpid", "p"), Rules(), HttpTransport("p"), Lines())
    agent = Agent(tools, State("cpid"))
    began = time.monotonic()
    alarm = threading.Timer(0.05, agent.wake)
    alarm.start()

    agent.turn(60.0)

    assert time.monotonic() - began < 30
    alarm.join()
    agent.end()


def test_usage_of_a_process_group_is_the_sum_of_its_processes() -> None:
    program = "import subprocess, sys; x = bytearray(30_000_000); print(flush=True); input()"
    parent = subprocess.Popen(
        [
            *(sys.executable, "-c"),
            f"import subprocess, sys; subprocess.run([sys.executable, '-c', {program!r}])",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    parent.stdout.readline()
    memory, cpu_time = group_usage()[parent.pid]
    parent.communicate(b"\n", timeout=20)
    assert 30_000_000 < memory < 300_000_000
    assert 0 <= cpu_time < 20
    assert os.getpgrp() in group_usage()


URL = "http://project.example/"


def test_usage_of_running_programs_is_sent_at_the_chosen_interval(tmp_path: Path) -> None:
    now = [1_800_000_000.0]
    rules = Rules(usage_seconds=60.0, slots=2)
    tools = Tools(Home(tmp_path), HostFacts("cpid", "p"), rules, HttpTransport("p"), Lines())
    running = {
        name: HeldResult(Result(name, "wu"), phase=Phase.RUNNING, running_since=now[0])
        for name in ("a", "b")
    }
    agent = Agent(
        tools, State("cpid").with_project(Project(URL, "k", results=running)), lambda: now[0]
    )
    agent.runner.usage = lambda: {(URL, name): (4096, 1.5) for name in ("a", "b", "gone")}  # type: ignore[method-assign]

    def sent() -> list[str]:
        messages = list(agent._usage_events())
        return [
            f"{message.result} {re.findall('<variety>(.*)<', message.text)[0]}"
            for message in messages
        ]

    assert sent() == ["a usage", "b usage"]
    now[0] += 59
    assert sent() == []
    now[0] += 1
    # An unacknowledged message: the project did not answer meanwhile.
    project = agent.state.projects[URL]
    waiting = replace(project, trickles_up=(TrickleUp("a", 1, "<variety>usage</variety>"),))
    agent.state = agent.state.with_project(waiting)
    assert sent() == ["b usage"]
    # A pool gets reports, and no messages.
    reports: list[dict[str, dict[str, float]]] = []
    agent.pools[URL] = PoolLink(URL, "mh_host_x", agent.transport)
    agent._reporters[URL] = SimpleNamespace(report=reports.append)  # type: ignore[assignment]
    now[0] += 60
    assert sent() == []
    expected = {"cpu_time": 1.5, "elapsed_time": 120.0, "memory_bytes": 4096}
    assert reports == [{"a": expected, "b": expected}]
    agent.rules = replace(rules, usage_seconds=0.0)
    now[0] += 600
    assert sent() == []
    agent.end()
