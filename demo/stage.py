"""The processes of the demonstration: a server, daemons and three volunteers."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from daemons.management.processes import Children, wait_until
from project.embedded_postgres import EmbeddedPostgres
from project.ports import answers, free_port

ROOT = Path(__file__).resolve().parent.parent
VAR = ROOT / "var" / "demo"
PASSWORD = "manyhands"  # noqa: S105 - of accounts that last for a minute
READY_TIMEOUT_SECONDS = 60.0

#: Settings that shorten waits; all others are the defaults of a project.
SETTINGS = {"PROJECT_NAME": "Manyhands demo", "REQUEST_DELAY": "1", "PURGE_AFTER": "86400"}
SLOTS = 2
#: Minimum seconds between two contacts, and the factor of every wait after a failure.
POLL, BACKOFF_SCALE = "0.5", "0.01"
#: Seconds of work that a client stores: little, so that all three volunteers get work.
BUFFER = "1"


class StageError(Exception):
    """The demonstration cannot start or failed; the message has a hint."""


@dataclass(frozen=True, slots=True)
class Volunteer:
    """A volunteer with one computer; `falsifies` makes it return one wrong digit, once."""

    name: str
    falsifies: bool = False

    @property
    def email(self) -> str:
        """The e-mail address of the account."""
        return f"{self.name}@example.org"


ALICE, BOB, MALLORY = Volunteer("alice"), Volunteer("bob"), Volunteer("mallory", falsifies=True)
VOLUNTEERS = (ALICE, BOB, MALLORY)


@dataclass(slots=True)
class Stage:
    """The processes of a demonstration and their log files."""

    port: int
    lock: IO[str]
    children: Children = field(default_factory=Children)

    @property
    def url(self) -> str:
        """The address that volunteers attach to."""
        return f"http://127.0.0.1:{self.port}/"

    @property
    def _config_url(self) -> str:
        return f"{self.url}get_project_config.php"

    def log(self, name: str) -> Path:
        """Return the log file of a process."""
        return VAR / f"{name}.log"

    def serve(self) -> None:
        """Start the server and all daemons; return when the server answers."""
        self._start("serve", [ROOT / "manage.py", "serve", "--quiet", *self._serve_options()])
        if (
            not wait_until(self._answers_or_ended, within=READY_TIMEOUT_SECONDS)
            or self.children.ended()
        ):
            raise StageError(f"The server did not start.\n{tail(self.log('serve'))}")

    def attach(self) -> None:
        """Create an account for each volunteer and attach a client to it."""
        processes = [
            subprocess.Popen(
                [
                    *self._client(volunteer),
                    *("attach", self.url, "--create", "--name", volunteer.name),
                    *("--email", volunteer.email, "--password", PASSWORD),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for volunteer in VOLUNTEERS
        ]
        for volunteer, process in zip(VOLUNTEERS, processes, strict=True):
            output, _ = process.communicate(timeout=READY_TIMEOUT_SECONDS)
            if process.returncode:
                raise StageError(f"{volunteer.name} could not attach: {output.strip()}")

    def run(self, volunteer: Volunteer) -> None:
        """Start a volunteer's client."""
        options = ["--slots", str(SLOTS), "--buffer", BUFFER, "--poll", POLL]
        options += ["--backoff-scale", BACKOFF_SCALE]
        falsify = {"VOLUNTEER_FALSIFY": "1"} if volunteer.falsifies else {}
        command = [*self._client(volunteer)[1:], "run", *options]
        self._start(volunteer.name, command, environment=falsify)

    def kill(self, volunteer: Volunteer) -> None:
        """Kill a volunteer's client with SIGKILL."""
        self.children.kill(volunteer.name)

    def manage(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a management command and return its output."""
        return subprocess.run(
            [sys.executable, ROOT / "manage.py", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=READY_TIMEOUT_SECONDS,
        )

    def broken(self) -> str | None:
        """Return which process ended unexpectedly, with its last lines; None if all run."""
        ended = self.children.ended()
        if ended is None:
            return None
        name, code = ended
        return f"{name} ended unexpectedly with exit code {code}.\n{tail(self.log(name))}"

    def close(self) -> None:
        """Stop everything: volunteers first, then the server, its daemons and the database."""
        for volunteer in VOLUNTEERS:
            if volunteer.name in self.children.started:
                self.children.stop(volunteer.name)
        self.children.stop_all()
        EmbeddedPostgres(VAR).stop()
        self.lock.close()

    def _serve_options(self) -> list[str]:
        return ["--port", str(self.port), "--workers", "2", "--pause", "0.2"]

    def _answers_or_ended(self) -> bool:
        return self.children.ended() is not None or answers(self._config_url)

    def _client(self, volunteer: Volunteer) -> list[str | Path]:
        return [sys.executable, ROOT / "client", "--dir", VAR / "volunteers" / volunteer.name]

    def _start(
        self, name: str, words: list[str | Path], environment: dict[str, str] | None = None
    ) -> None:
        with self.log(name).open("ab") as output:
            command = [sys.executable, *words]
            self.children.start(name, command, environment=environment, output=output)


def set_up() -> Stage:
    """Empty the folder, choose a port, and set the environment for this project."""
    VAR.parent.mkdir(exist_ok=True)
    lock = (VAR.parent / "demo.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StageError(
            "Another demonstration is running here. Hint: wait until it ends."
        ) from None
    port = free_port()
    os.environ.pop("DATABASE_URL", None)
    os.environ.update(SETTINGS)
    os.environ["VAR_DIR"] = str(VAR)
    os.environ["MASTER_URL"] = f"http://127.0.0.1:{port}/"
    os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
    # A demonstration that was killed may have left its database running.
    EmbeddedPostgres(VAR).stop()
    try:
        shutil.rmtree(VAR, ignore_errors=False)
    except FileNotFoundError:
        pass
    except PermissionError as error:
        message = f"{VAR} cannot be emptied: {error.strerror} ({error.filename})."
        raise StageError(f"{message}\nHint: remove it as the user who created it.") from None
    VAR.mkdir()
    return Stage(port, lock)


def tail(path: Path, lines: int = 15) -> str:
    """Return the last lines of a log."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return f"({path} cannot be read)"
