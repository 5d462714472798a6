"""Finds, lists and verifies the entries of purged workunits in the archive."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from scheduler import storage


class NotArchived(LookupError):
    """The archive has no workunit or result of this name. Hint: see `manage.py explain`."""


@dataclass(frozen=True, slots=True)
class Archived:
    """An entry of the archive, and the day of the archive file that contains the entry."""

    day: str
    entry: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.entry["workunit"]["name"])

    @property
    def canonical(self) -> str | None:
        """The name of the canonical result, or None."""
        wanted = self.entry["workunit"].get("canonical_result_id")
        names = (result["name"] for result in self.entry["results"] if result["id"] == wanted)
        return next(names, None)

    @property
    def verdict(self) -> str:
        """The name of the canonical result or the errors, as text for users."""
        if canonical := self.canonical:
            return f"answered by {canonical}"
        return "failed: " + (", ".join(self.entry["workunit"].get("errors", ())) or "no reason")


@dataclass(frozen=True, slots=True)
class Day:
    """The state of one day's archive file.

    `repeated` counts duplicate entries; `torn` is the number of bytes after the last complete part.
    """

    day: str
    workunits: int
    repeated: int
    nbytes: int
    torn: int
    faults: tuple[str, ...]


def find(name: str) -> Archived:
    """Return the newest entry of a workunit, by the name of the workunit or of one of its results.

    Reads the files from the newest day backwards, and parses only lines that contain the name.
    Raises `NotArchived`.
    """
    wanted = json.dumps(name, ensure_ascii=False).encode()
    for day, path in storage.archive_days().items():
        newest = None
        for line in storage.read_archive(path):
            if wanted in line and _concerns(entry := json.loads(line), name):
                newest = Archived(day, entry)
        if newest is not None:
            return newest
    raise NotArchived(
        f"The archive has no workunit or result named {name!r}. "
        "Hint: for work that is not purged yet, use `manage.py explain`."
    )


def _concerns(entry: dict[str, Any], name: str) -> bool:
    return name == entry["workunit"]["name"] or any(r["name"] == name for r in entry["results"])


def listed(*, app: str | None = None, since: date | None = None) -> Iterator[Archived]:
    """Yield purged workunits, newest day first, without duplicates left by a crash.

    With `app`, only workunits of this app are returned.  `since` is the earliest day to read.
    """
    for day, path in storage.archive_days().items():
        if since is not None and day < since.isoformat():
            return
        entries: dict[int, dict[str, Any]] = {}
        for line in storage.read_archive(path):
            entry = json.loads(line)
            if app is None or entry["workunit"]["app"] == app:
                entries[entry["workunit"]["id"]] = entry
        yield from (Archived(day, entry) for entry in reversed(entries.values()))


def verified() -> Iterator[Day]:
    """Parse the file of every day, newest first, and yield its state."""
    for day, path in storage.archive_days().items():
        seen: set[int] = set()
        lines, faults = 0, []
        for lines, line in enumerate(storage.read_archive(path), start=1):
            try:
                entry = json.loads(line)
                seen.add(int(entry["workunit"]["id"]))
                datetime.fromisoformat(entry["archived_at"])
                _ = [result["name"] for result in entry["results"]]
            except (ValueError, KeyError, TypeError) as error:
                faults.append(f"line {lines}: {type(error).__name__}: {error}")
        nbytes, end = storage.archive_sizes(path)
        repeated = lines - len(seen) - len(faults)
        yield Day(day, len(seen), repeated, nbytes, nbytes - end, tuple(faults))
