"""Reads the archive: stories of purged workunits, lists, whether it is sound."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from scheduler import storage


class NotArchived(LookupError):
    """The archive has no workunit or result of this name. Hint: `explain` knows living ones."""


@dataclass(frozen=True, slots=True)
class Archived:
    """One line of the archive: the day whose file it is in, and what it says."""

    day: str
    entry: dict[str, Any]

    @property
    def name(self) -> str:
        """The workunit's name."""
        return str(self.entry["workunit"]["name"])

    @property
    def canonical(self) -> str | None:
        """The name of the result that is the answer, if there is one."""
        wanted = self.entry["workunit"].get("canonical_result_id")
        names = (one["name"] for one in self.entry["results"] if one["id"] == wanted)
        return next(names, None)

    @property
    def verdict(self) -> str:
        """What became of the workunit, in a few words."""
        if canonical := self.canonical:
            return f"answered by {canonical}"
        return "failed: " + (", ".join(self.entry["workunit"].get("errors", ())) or "no reason")


@dataclass(frozen=True, slots=True)
class Day:
    """What is in one day's file; `torn` counts the bytes behind its last whole part."""

    day: str
    workunits: int
    repeated: int
    nbytes: int
    torn: int
    faults: tuple[str, ...]


def find(name: str) -> Archived:
    """The newest line of a workunit, or of the one that a result belongs to.

    Days are read from the newest back; a line is parsed only if the name is in it.  Raises
    `NotArchived`.
    """
    wanted = json.dumps(name, ensure_ascii=False).encode()
    for day, path in storage.archive_days().items():
        newest = None
        for line in storage.read_archive(path):
            if wanted in line and _tells_of(entry := json.loads(line), name):
                newest = Archived(day, entry)
        if newest is not None:
            return newest
    msg = (
        f"The archive has no workunit or result named {name!r}. "
        "Hint: `manage.py explain` knows those that are not purged yet."
    )
    raise NotArchived(msg)


def _tells_of(entry: dict[str, Any], name: str) -> bool:
    return name == entry["workunit"]["name"] or any(r["name"] == name for r in entry["results"])


def listed(*, app: str | None = None, since: date | None = None) -> Iterator[Archived]:
    """What was purged, the newest day first; what a crash archived twice is there once."""
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
    """Read every day to its end, the newest first."""
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
