"""Where the bench takes place: a fresh project, its servers, their CPU time."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

from bench.figures import BenchError
from project.children import Children, wait_until
from project.embedded_postgres import EmbeddedPostgres
from project.ports import answers, free_port

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "var" / "bench"
VAR = FOLDER / "project"
WORKERS, THREADS = 2, 8
READY_WITHIN = 60.0


@dataclass(slots=True)
class Stage:
    """A project of its own in ``var/bench/project``, thrown away by the next run."""

    port: int
    children: Children = field(default_factory=Children)

    def serve(self) -> None:
        """Start the web server alone, as ``manage.py serve`` does; return when it answers."""
        if "server" in self.children.started:
            return
        words = ["--interface", "wsgi", "--host", "127.0.0.1", "--port", str(self.port)]
        words += ["--workers", str(WORKERS), "--blocking-threads", str(THREADS)]
        words += ["--log-level", "error", "--no-ws", "project.wsgi:application"]
        with (FOLDER / "server.log").open("wb") as log:
            self.children.start(
                "server",
                [sys.executable, "-m", "granian", *words],
                environment={"DATABASE_POOL": str(THREADS)},
                output=log,
            )
        answered = wait_until(lambda: self._answers() or self._ended(), within=READY_WITHIN)
        if not answered or self._ended():
            raise BenchError(f"The web server did not start. Hint: see {FOLDER / 'server.log'}.")

    def cpu_seconds(self) -> dict[str, float]:
        """CPU time that each part has used up to now, by its name."""
        used = {"bench": time.process_time()}
        if server := self.children.started.get("server"):
            used["server"] = _family_seconds(server.pid)
        if postmaster := EmbeddedPostgres(VAR).postmaster():
            used["postgres"] = _family_seconds(postmaster.pid)
        return used

    def close(self) -> None:
        """Stop the web server and the database."""
        self.children.stop_all()
        EmbeddedPostgres(VAR).stop()

    def _answers(self) -> bool:
        question = f"http://127.0.0.1:{self.port}/get_project_config.php"
        return answers(question)

    def _ended(self) -> bool:
        return self.children.ended() is not None


@dataclass(slots=True)
class Stopwatch:
    """Wall-clock and CPU time of a stretch of work."""

    stage: Stage
    seconds: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    _began: float = 0.0
    _cpu_began: Mapping[str, float] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._cpu_began = self.stage.cpu_seconds()
        self._began = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._began
        now = self.stage.cpu_seconds()
        self.cpu = {name: now[name] - began for name, began in self._cpu_began.items()}

    def cpu_ms(self, count: int) -> dict[str, float]:
        """Milliseconds of CPU per unit, by part; parts that did nothing are left out."""
        each = {name: 1000 * used / count for name, used in self.cpu.items()} if count else {}
        return {name: shown for name, used in each.items() if (shown := round(used, 3)) > 0}


def set_up() -> Stage:
    """Empty the folder, choose a port; the environment then names this project and no other."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    # A bench that was killed may have left its database running.
    EmbeddedPostgres(VAR).stop()
    with suppress(FileNotFoundError):
        shutil.rmtree(VAR)
    port = free_port()
    os.environ.pop("DATABASE_URL", None)
    os.environ.pop("DATABASE_POOL", None)
    os.environ.update(
        {
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "VAR_DIR": str(VAR),
            "MASTER_URL": f"http://127.0.0.1:{port}/",
            "PROJECT_NAME": "Manyhands bench",
            "LEDGER": "true",
            "GUARD_TRIGGER": "false",
            "UPLOAD_FSYNC": "false",
            "PURGE_AFTER": "0",
            "DAILY_QUOTA": "0",
            "LOG_LEVEL": "WARNING",
        }
    )
    return Stage(port)


def _family_seconds(pid: int) -> float:
    """CPU seconds of a process and all its descendants, those that have ended included."""
    seconds = 0.0
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                used = member.cpu_times()
                seconds += used.user + used.system + used.children_user + used.children_system
    return seconds
