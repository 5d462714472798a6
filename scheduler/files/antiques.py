"""Deletes files that nobody will ask for: antique uploads, orphaned downloads.

The rule: X is the submission of the oldest workunit that is not assimilated; an upload from before
X is for a workunit that is done, or gone; unless a result that still has its files owns it, nobody
will ever ask for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from scheduler import sql, storage
from scheduler.results.facts import result_of
from scheduler.storage import OldFile

log = logging.getLogger(__name__)

#: No upload is antique before it is so old, however quickly work is done.
MIN_AGE: Final = timedelta(days=30)
#: A submission publishes its files and then commits; it never takes so long.
ORPHAN_AGE: Final = timedelta(days=1)


class TooYoung(ValueError):
    """An age at which files may still be on their way. Hint: the message names the least one."""


@dataclass(slots=True)
class Heap:
    """Some files and their bytes, and the first few names."""

    files: int = 0
    nbytes: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, files: list[OldFile], *, named: int = 20) -> None:
        """Count more files."""
        self.files += len(files)
        self.nbytes += sum(file.nbytes for file in files)
        self.names += [file.name for file in files[: max(0, named - len(self.names))]]


@dataclass(frozen=True, slots=True)
class Antiques:
    """What was deleted, or would be: uploads from before `before`, and orphans among downloads."""

    before: datetime
    uploads: Heap
    downloads: Heap

    @property
    def changed(self) -> bool:
        """Whether there was anything."""
        return bool(self.uploads.files or self.downloads.files)


def delete_antique_files(
    now: datetime,
    *,
    dry_run: bool = False,
    min_age: timedelta = MIN_AGE,
    rest: Callable[[], None] = lambda: None,
) -> Antiques:
    """Delete what nobody will ask for; `rest` is called between some thousand files.

    Raises `TooYoung` for an age under a day.  No transaction is open while files are deleted.
    """
    if min_age < ORPHAN_AGE:
        msg = f"{min_age} is too young. Hint: uploads of the last day may still be reported."
        raise TooYoung(msg)
    before = antique_before(now, min_age)
    uploads, downloads = Heap(), Heap()
    for files in storage.old_uploads(before=before):
        uploads.add(_gone(list(_unneeded(files)), dry_run=dry_run))
        rest()
    for files in storage.old_downloads(before=now - ORPHAN_AGE):
        downloads.add(_gone(list(_unknown(files)), dry_run=dry_run))
        rest()
    done = Antiques(before, uploads, downloads)
    if done.changed and not dry_run:
        log.info(
            "antique files deleted",
            extra={
                "uploads": uploads.files,
                "downloads": downloads.files,
                "bytes": uploads.nbytes + downloads.nbytes,
            },
        )
    return done


def antique_before(now: datetime, min_age: timedelta) -> datetime:
    """X, but at least so long ago; without unassimilated workunits X is now."""
    found = sql.fetch_one("files/read_antique_limit", {})
    oldest: datetime | None = found["oldest"] if found else None
    return min(oldest or now, now - min_age)


def _gone(files: list[OldFile], *, dry_run: bool) -> list[OldFile]:
    return files if dry_run else storage.delete_old_files(files)


def _unneeded(files: list[OldFile]) -> Iterator[OldFile]:
    """Uploads that belong to no result which still has its files."""
    owners = {file.name: result_of(file.name) for file in files}
    ids = sorted({one for one in owners.values() if one is not None})
    living = (
        {row["id"] for row in sql.fetch("files/read_living_results", {"ids": ids})}
        if ids
        else set()
    )
    return (file for file in files if owners[file.name] not in living)


def _unknown(files: list[OldFile]) -> Iterator[OldFile]:
    """Published files that the database does not know."""
    names = [file.name for file in files]
    known = {row["name"] for row in sql.fetch("files/read_known_files", {"names": names})}
    return (file for file in files if file.name not in known)
