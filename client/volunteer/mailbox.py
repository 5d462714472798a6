"""Wishes of the volunteer, left in the folder for whoever runs the client there."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from dataclasses import dataclass
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
class Wish:
    """One wish; `verb` is attach, detach, update, suspend or resume."""

    verb: str
    project: str
    key: str = ""
    name: str = ""
    scheduler_urls: tuple[str, ...] = ()
    replaces: bool = False

    def event(self, now: float) -> ProjectEvent:
        """Turn the wish into what happens; raises KeyError for an unknown verb."""
        if self.verb == "attach":
            return Attached(
                now,
                project=self.project,
                key=self.key,
                name=self.name,
                scheduler_urls=self.scheduler_urls,
                replaces=self.replaces,
            )
        kinds = {
            "detach": Detached,
            "update": UpdateWanted,
            "suspend": SuspendWanted,
            "resume": ResumeWanted,
        }
        return kinds[self.verb](now, project=self.project)


def post(folder: Path, wish: Wish) -> Path:
    """Leave a wish; the one who runs takes it within a second and deletes the file."""
    wishes = folder / "wishes"
    wishes.mkdir(mode=0o700, exist_ok=True)
    path = wishes / f"{time.time_ns()}-{wish.verb}.json"
    written = path.with_suffix(".writing")
    content = {name: getattr(wish, name) for name in Wish.__dataclass_fields__}
    with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        json.dump(content, file)
    written.replace(path)
    return path


def waiting(folder: Path) -> list[tuple[Path, Wish]]:
    """Read all wishes in their order; whoever has fulfilled one and saved, deletes its file.

    A wish fulfilled twice does no harm. One that cannot be read is deleted here.
    """
    found = []
    for path in sorted((folder / "wishes").glob("*.json")):
        try:
            content = json.loads(path.read_text())
            content["scheduler_urls"] = tuple(content.get("scheduler_urls", ()))
            found.append((path, Wish(**content)))
        except (OSError, ValueError, TypeError):
            path.unlink(missing_ok=True)
    return found


@contextlib.contextmanager
def locked(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Be the only one who changes the folder; raises FolderInUseError after `patience` seconds.

    Other commands hold the lock for moments, so whoever means to stay should wait a little.
    """
    until = time.monotonic() + patience
    with (folder / "lock").open("a+") as file:
        while not _try_lock(file) and time.monotonic() < until:
            time.sleep(0.02)
        if not _try_lock(file):
            file.seek(0)
            owner = file.read().strip() or "unknown"
            message = (
                f"A client runs already in {folder} (process {owner}).\n"
                "Hint: stop it, or choose another folder with --dir."
            )
            raise FolderInUseError(message)
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
