"""Serves the project of the pictures, which the next run deletes."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from daemons.management.processes import Children, wait_until
from project.embedded_postgres import EmbeddedPostgres
from project.ports import answers, free_port

ROOT = Path(__file__).resolve().parent.parent.parent
VAR = ROOT / "var" / "demo-pictures"
#: The name that pages show.  The browser of `camera` resolves it to this computer.
SITE = "primes.example.org"
READY_TIMEOUT_SECONDS = 60.0

SETTINGS = {
    "DJANGO_SETTINGS_MODULE": "project.settings",
    "VAR_DIR": str(VAR),
    "MASTER_URL": f"http://{SITE}/",
    "PROJECT_NAME": "Primes at home",
    "GUARD_TRIGGER": "true",
    "CHANCE_KEY": "a fixed key: every run makes the same random draws",
    "PURGE_AFTER": str(90 * 86400),
    "STAFF_SECOND_FACTOR": "false",
    "LOG_LEVEL": "ERROR",
}


class PicturesError(Exception):
    """The pictures cannot be taken; the message has a hint."""


@dataclass(slots=True)
class Stage:
    """The processes of the project; `port` is the web server's."""

    port: int = field(default_factory=free_port)
    children: Children = field(default_factory=Children)

    def serve(self) -> None:
        """Start the server and all daemons; return when each daemon has run a pass.

        Raises PicturesError.
        """
        from daemons.registry import DAEMONS

        log = VAR / "serve.log"
        command: list[str | Path] = [
            sys.executable,
            ROOT / "manage.py",
            "serve",
            "--quiet",
            "--port",
            str(self.port),
        ]
        with log.open("ab") as output:
            self.children.start("serve", command, output=output)
        names = {f"{daemon.name}.alive" for daemon in DAEMONS}

        def is_up() -> bool:
            config_url = f"http://127.0.0.1:{self.port}/get_project_config.php"
            return names <= {path.name for path in (VAR / "run").glob("*.alive")} and answers(
                config_url
            )

        ready = wait_until(lambda: is_up() or self._ended(), within=READY_TIMEOUT_SECONDS)
        if not ready or self._ended():
            msg = f"The server did not start. Hint: see {log}."
            raise PicturesError(msg)

    def close(self) -> None:
        """Stop all processes; the database is stopped last."""
        self.children.stop_all()
        EmbeddedPostgres(VAR).stop()

    def _ended(self) -> bool:
        return self.children.ended() is not None


def set_up() -> Stage:
    """Delete the previous project, set the environment of a new one, and return its stage."""
    EmbeddedPostgres(VAR).stop()
    with suppress(FileNotFoundError):
        shutil.rmtree(VAR)
    VAR.mkdir(parents=True)
    os.environ.pop("DATABASE_URL", None)
    os.environ.update(SETTINGS)
    return Stage()
