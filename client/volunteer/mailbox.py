"""Queues requests of the volunteer as files for the running client."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TextIO

from volunteer.events import (
    Attached,
    Detached,
    ProjectEvent,
    ResumeWanted,
    SuspendWanted,
    UpdateWanted,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class FolderInUseError(Exception):
    """Another client runs in the folder."""


@dataclass(frozen=True, slots=True)
class UserRequest:
    """A request of the volunteer. `verb` is attach, detach, update, suspend or resume."""

    verb: str
    project: str
    key: str = ""
    name: str = ""
    scheduler_urls: tuple[str, ...] = ()
    replaces: bool = False

    def event(self, now: float) -> ProjectEvent:
        """Return the event of the request. Raises KeyError for an unknown verb."""
        if self.verb == "attach":
            details = asdict(self)
            del details["verb"]
            return Attached(now, **details)
        kinds = {
            "detach": Detached,
            "update": UpdateWanted,
            "suspend": SuspendWanted,
            "resume": ResumeWanted,
        }
        return kinds[self.verb](now, project=self.project)


def post(folder: Path, request: UserRequest) -> Path:
    """Write a request to a new file, and return the path of the file.

    A running client applies the request within about a second, and then deletes the file.
    """
    requests_folder = folder / "wishes"
    requests_folder.mkdir(mode=0o700, exist_ok=True)
    path = requests_folder / f"{time.time_ns()}-{request.verb}.json"
    written = path.with_suffix(".writing")
    with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        json.dump(asdict(request), file)
    written.replace(path)
    return path


def waiting(folder: Path) -> list[tuple[Path, UserRequest]]:
    """Return the queued requests with the paths of their files, oldest request first.

    The caller must delete the files after it has saved the state. A request can be applied twice
    without harm. This function deletes files that it cannot read.
    """
    requests = []
    for path in sorted((folder / "wishes").glob("*.json")):
        try:
            content = json.loads(path.read_text())
            content["scheduler_urls"] = tuple(content.get("scheduler_urls", ()))
            requests.append((path, UserRequest(**content)))
        except (OSError, ValueError, TypeError):
            path.unlink(missing_ok=True)
    return requests


@contextlib.contextmanager
def locked(folder: Path, timeout_seconds: float = 0.0) -> Iterator[None]:
    """Lock the folder exclusively while the block runs.

    Raises FolderInUseError if the folder is still locked after `timeout_seconds`. Other commands
    lock the folder only briefly, so a client that starts waits for one second.
    """
    until = time.monotonic() + timeout_seconds
    with (folder / "lock").open("a+") as file:
        while not _try_lock(file) and time.monotonic() < until:
            time.sleep(0.02)
        if not _try_lock(file):
            file.seek(0)
            owner = file.read().strip() or "unknown"
            raise FolderInUseError(
                f"A client already runs in {folder} (process {owner}).\n"
                "Hint: stop it, or choose another folder with --dir."
            )
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _try_lock(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
