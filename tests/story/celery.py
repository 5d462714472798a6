"""Celery for a story: Redis, workers and beat, which tests can kill."""

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
    """Return the path of redis-server: from the Python environment, or the installed one."""
    beside = Path(sys.executable).with_name("redis-server")
    return beside if beside.exists() else Path(needs("redis-server"))


class Redis:
    """A Redis without persistence: its data is lost when it is killed."""

    def __init__(self, project: Project) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._project = project

    def start(self) -> None:
        """Start Redis; return when it answers."""
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
        self._project.children.kill("redis")

    def command(self, *words: str) -> str:
        """Send one command; return the reply unparsed."""
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
    """A project with a web server, Redis and Celery instead of the daemons.

    The processes `web`, `redis`, `beat` and the named workers are children of the project
    (`project.children`), which stops them at the end of the story.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self.redis = Redis(project)
        project.environment["CELERY_BROKER_URL"] = self.redis.url

    def start(self, workers: int = 2) -> None:
        """Start all processes, with workers `worker1`, `worker2`, etc."""
        self.project.serve_web()
        self.redis.start()
        for number in range(1, workers + 1):
            self.start_worker(f"worker{number}")
        self.start_beat()

    def start_worker(self, name: str, *queues: str) -> None:
        """Start a worker for the queues of some daemons; without names, of all."""
        words = ["worker", "--queues", ",".join(queues or BY_NAME), "--concurrency", "2"]
        words += ["--hostname", f"{name}@%h", "--without-gossip", "--without-mingle"]
        self._start(name, *words)

    def start_beat(self) -> None:
        self._start("beat", "beat", "--pidfile", "")

    def restart(self, name: str, *queues: str) -> None:
        """Restart a process after `project.children.kill(name)`."""
        if name == "redis":
            self.redis.start()
        elif name == "beat":
            self.start_beat()
        else:
            self.start_worker(name, *queues)

    def revive_workers(self) -> None:
        """Start the workers again that have ended, as the systemd units do.

        A worker can end if the broker is killed while the worker acknowledges a message.
        """
        children = self.project.children
        for name, process in list(children.started.items()):
            if name.startswith("worker") and process.poll() is not None:
                children.stop(name)
                self.start_worker(name)

    def log(self, name: str) -> str:
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
