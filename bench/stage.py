"""Sets up a new project for the bench, and runs its servers."""

from __future__ import annotations

import gc
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from bench.figures import BenchError
from bench.processes import family_seconds
from daemons.management.processes import Children, wait_until
from project.embedded_postgres import EmbeddedPostgres
from project.ports import answers, free_port

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(os.environ.get("BENCH_FOLDER") or ROOT / "var" / "bench")
VAR = FOLDER / "project"
READY_TIMEOUT_SECONDS = 60.0


@dataclass(slots=True)
class Stage:
    """A separate project in ``var/bench/project``, which the next run deletes."""

    port: int
    children: Children = field(default_factory=Children)
    _serving: Mapping[str, str] = field(default_factory=dict)

    def serve(self, **environment: str) -> None:
        """Start the web server like ``manage.py serve``; return when it answers requests.

        A web server that runs with another environment is restarted.  Raises BenchError.
        """
        from project.management.commands import serve

        if "server" in self.children.started:
            if self._serving == environment:
                return
            self.children.stop("server")
        with self._log("server") as log:
            serve.start_server(self.children, self._options(), environment, log)
        self._serving = environment
        answered = wait_until(
            lambda: self._answers() or self._ended(), within=READY_TIMEOUT_SECONDS
        )
        if not answered or self._ended():
            raise BenchError(f"The web server did not start. Hint: see {FOLDER / 'server.log'}.")

    def start_daemons(self, **environment: str) -> None:
        """Start all daemons like ``manage.py serve``; return when all have run a pass.

        Raises BenchError.
        """
        from daemons.registry import DAEMONS
        from project.management.commands import serve

        with self._log("daemons") as log:
            serve.start_daemons(self.children, self._options(), environment, log)
        names = {f"{daemon.name}.alive" for daemon in DAEMONS}
        run_folder = VAR / "run"
        for name in names:
            (run_folder / name).unlink(missing_ok=True)
        if not wait_until(
            lambda: names <= {path.name for path in run_folder.glob("*.alive")},
            within=READY_TIMEOUT_SECONDS,
        ):
            raise BenchError(f"Not all daemons have started. Hint: see {FOLDER / 'daemons.log'}.")

    def stop_daemons(self) -> None:
        """Stop the daemons after their current passes."""
        if "daemons" in self.children.started:
            self.children.stop("daemons", within=READY_TIMEOUT_SECONDS)

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU seconds used so far by bench, server, daemons and postgres."""
        used = {"bench": time.process_time()}
        for name, process in self.children.started.items():
            used[name] = family_seconds(process.pid)
        if postmaster := EmbeddedPostgres(VAR).postmaster():
            used["postgres"] = family_seconds(postmaster.pid)
        return used

    def close(self) -> None:
        """Stop all processes; the database is stopped last."""
        self.children.stop_all()
        EmbeddedPostgres(VAR).stop()

    def _options(self) -> dict[str, Any]:
        workers = max(2, os.cpu_count() or 1)
        return {
            "address": "127.0.0.1",
            "port": self.port,
            "workers": workers,
            "pause": None,
            "sleep_interval": [],
        }

    def _log(self, name: str) -> IO[bytes]:
        return (FOLDER / f"{name}.log").open("ab")

    def _answers(self) -> bool:
        config_url = f"http://127.0.0.1:{self.port}/get_project_config.php"
        return answers(config_url)

    def _ended(self) -> bool:
        return self.children.ended() is not None


@dataclass(slots=True)
class Stopwatch:
    """Measures wall-clock time, and CPU time by process."""

    stage: Stage
    seconds: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    _began: float = 0.0
    _cpu_began: Mapping[str, float] = field(default_factory=dict)

    def begin(self) -> None:
        """Start the measurement after a garbage collection."""
        # Otherwise a collection of all objects that the bench has imported takes 60 ms of the
        # measurement that happens to trigger it.
        gc.collect()
        gc.freeze()
        self._cpu_began = self.stage.cpu_seconds()
        self._began = time.perf_counter()

    def end(self) -> None:
        self.seconds = time.perf_counter() - self._began
        now = self.stage.cpu_seconds()
        self.cpu = {name: now.get(name, 0.0) - began for name, began in self._cpu_began.items()}

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def cpu_ms(self, count: int) -> dict[str, float]:
        """Return the milliseconds of CPU per unit, by process; `count` is the number of units.

        Processes without measurable CPU time are left out.
        """
        milliseconds = (
            {name: 1000 * used / count for name, used in self.cpu.items()} if count else {}
        )
        return {
            name: rounded for name, used in milliseconds.items() if (rounded := round(used, 3)) > 0
        }


def set_up() -> Stage:
    """Delete the previous project, set the environment of a new project, and return its stage."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    # A bench that was killed may have left its database running.
    EmbeddedPostgres(VAR).stop()
    with suppress(FileNotFoundError):
        shutil.rmtree(VAR)
    for log in FOLDER.glob("*.log"):
        log.unlink()
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
