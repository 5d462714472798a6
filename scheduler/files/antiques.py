"""Deletes antique uploads and orphaned downloads, which are no longer needed.

Let X be the time at which the oldest unassimilated workunit was submitted.  An upload from before X
is for a workunit that is assimilated or purged, so it is not needed, unless it belongs to a result
whose files are not deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from scheduler import sql, storage
from scheduler.results.facts import result_of
from scheduler.storage import OldFile

log = logging.getLogger(__name__)

#: The minimum age of antique uploads, even if all earlier work is assimilated.
MIN_AGE: Final = timedelta(days=30)
#: The minimum age of orphaned downloads, longer than a submission takes from the publication of its
#: files to the commit of their rows.
ORPHAN_AGE: Final = timedelta(days=1)


class TooYoung(ValueError):
    """The minimum age is too low: files may still be in use. Hint: give at least a day."""


@dataclass(slots=True)
class FileSummary:
    """The number of files, their total size in bytes, and the first few names."""

    files: int = 0
    nbytes: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, files: list[OldFile], *, named: int = 20) -> None:
        """Count files, and store names until there are `named` names."""
        self.files += len(files)
        self.nbytes += sum(file.nbytes for file in files)
        self.names += [file.name for file in files[: max(0, named - len(self.names))]]


@dataclass(frozen=True, slots=True)
class Antiques:
    """Summaries of the deleted files; the uploads were last changed before `before`."""

    before: datetime
    uploads: FileSummary
    downloads: FileSummary

    @property
    def changed(self) -> bool:
        return bool(self.uploads.files or self.downloads.files)


def delete_antique_files(
    now: datetime,
    *,
    dry_run: bool = False,
    min_age: timedelta = MIN_AGE,
    rest: Callable[[], None] = lambda: None,
) -> Antiques:
    """Delete antique uploads and orphaned downloads, and return a summary.

    `rest` is called after each batch of files.  If `dry_run` is True, no file is deleted.  Raises
    `TooYoung` if `min_age` is less than a day, and `storage.DeletionsHeld` while a backup is
    running.  No transaction is open while files are deleted.
    """
    if min_age < ORPHAN_AGE:
        msg = f"The minimum age {min_age} is too low. Hint: give at least {ORPHAN_AGE}."
        raise TooYoung(msg)
    before = antique_before(now, min_age)
    uploads, downloads = FileSummary(), FileSummary()
    for files in storage.old_uploads(before=before):
        with storage.deletions_allowed():
            uploads.add(_gone(without_result(files), dry_run=dry_run))
        rest()
    for files in storage.old_downloads(before=now - ORPHAN_AGE):
        with storage.deletions_allowed():
            downloads.add(_gone(without_row(files), dry_run=dry_run))
        rest()
    done = Antiques(before, uploads, downloads)
    if done.changed and not dry_run:
        log.info(
            "antiques_deleted",
            extra={
                "uploads": uploads.files,
                "downloads": downloads.files,
                "bytes": uploads.nbytes + downloads.nbytes,
            },
        )
    return done


def antique_before(now: datetime, min_age: timedelta) -> datetime:
    """Return the time before which uploads are antique.

    This is `min_age` ago, or the submission of the oldest unassimilated workunit if it is earlier.
    """
    row = sql.fetch_one("files/read_antique_limit", {})
    oldest: datetime | None = row["oldest"] if row else None
    return min(oldest or now, now - min_age)


def _gone(files: list[OldFile], *, dry_run: bool) -> list[OldFile]:
    return files if dry_run else storage.delete_old_files(files)


def without_result(files: Sequence[OldFile]) -> list[OldFile]:
    """Return the uploads that belong to no result, or to a result whose files are deleted."""
    owners = {file.name: result_of(file.name) for file in files}
    ids = sorted({owner for owner in owners.values() if owner is not None})
    rows = sql.fetch("files/read_living_results", {"ids": ids}) if ids else []
    living_ids = {row["id"] for row in rows}
    return [file for file in files if owners[file.name] not in living_ids]


def without_row(files: Sequence[OldFile]) -> list[OldFile]:
    """Return the published files that have no row in the database."""
    rows = sql.fetch("files/read_known_files", {"names": [file.name for file in files]})
    known_names = {row["name"] for row in rows}
    return [file for file in files if file.name not in known_names]
