"""The client's event loop waits until an event arrives or the time is over."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from volunteer.agent import Agent, Tools
from volunteer.config import Rules
from volunteer.display import Lines
from volunteer.records import State
from volunteer.slot import Home
from volunteer.transport import HttpTransport
from volunteer.wire.messages import HostFacts

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
