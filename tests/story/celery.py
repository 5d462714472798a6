"""Celery in a story: its own Redis, workers and beat, which tests can kill."""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from pathlib import Path

from daemons.management.processes import wait_until
from daemons.registry import BY_NAME
from project.ports import free_port
from tests.machine import needs
from tests.story.project import ROOT, Project

WITHIN = 60.0


def redis_server() -> Path:
    """The redis-server that came with the packages, or the one that is installed."""
    beside = Path(sys.executable).with_name("redis-server")
    return beside if beside.exists() else Path(needs("redis-server"))


class Redis:
    """A Redis without persistence: its data is lost when it is killed."""

    def __init__(self, project: Project) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._project = project

    def start(self) -> None:
        """Start it; returns when it answers."""
        with (self._project.folder / "redis.log").open("ab") as output:
            self._project.children.start(
                "redis",
                [
                    redis_server(),
                    *("--port", str(self.port), "--bind", "127.0.0.1"),
                    *("--save", "", "--appendonly", "no"),
                    *("--dir", str(self._project.folder)),
                ],
                output=output,
            )
        assert wait_until(self._answers, within=WITHIN), "redis-server does not answer"

    def kill(self) -> None:
        """SIGKILL it."""
        self._project.children.kill("redis")

    def command(self, *words: str) -> str:
        """Send one command, and return the answer unparsed."""
        said = b"*%d\r\n" % len(words)
        said += b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(said)
            return connection.recv(65536).decode().strip()

    def _answers(self) -> bool:
        with suppress(OSError):
            return self.command("PING") == "+PONG"
        return False


class CeleryStage:
    """The web server alone, a Redis, and Celery's processes, each by its name.

    The names: `web`, `redis`, `beat`, and each worker as it was called.  All of them are children
    of the project (`project.children`), which stops what still runs at the end of the story.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self.redis = Redis(project)
        project.environment["CELERY_BROKER_URL"] = self.redis.url

    def start(self, workers: int = 2) -> None:
        """Start everything: `worker1`, `worker2`, ...; returns when the web server answers."""
        self.project.serve_web()
        self.redis.start()
        for number in range(1, workers + 1):
            self.start_worker(f"worker{number}")
        self.start_beat()

    def start_worker(self, name: str, *queues: str) -> None:
        """Start a worker for some daemons' queues (all if none is named)."""
        words = ["worker", "--queues", ",".join(queues or BY_NAME), "--concurrency", "2"]
        words += ["--hostname", f"{name}@%h", "--without-gossip", "--without-mingle"]
        self._start(name, *words)

    def start_beat(self) -> None:
        """Start beat."""
        self._start("beat", "beat", "--pidfile", "")

    def restart(self, name: str, *queues: str) -> None:
        """Start a process again that `project.children.kill(name)` killed."""
        if name == "redis":
            self.redis.start()
        elif name == "beat":
            self.start_beat()
        else:
            self.start_worker(name, *queues)

    def log(self, name: str) -> str:
        """The log of a process."""
        path = self.project.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else "(no log)"

    def _start(self, name: str, *words: str) -> None:
        with (self.project.folder / f"{name}.log").open("ab") as output:
            self.project.children.start(
                name,
                [sys.executable, "-m", "celery", "-A", "project", *words],
                environment=self.project.environment | {"PYTHONPATH": str(ROOT)},
                output=output,
            )
