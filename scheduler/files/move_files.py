"""Moves published files between disk and store.

Theory of operation.  Readers look for a file on the disk first and then in the store, so it may be
in either or in both at any time.  A file is copied, verified, and only then deleted at its source,
so an interrupted move can be resumed.  When a file is moved back to the disk, clients may still
have a signed URL of its copy in the store; a later call deletes the copy, after all such URLs have
expired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from scheduler import storage
from scheduler.files.file_checks import served_in_batches
from scheduler.storage import Digest
from scheduler.storage.moving import Fate, Wanted, drop_copies, to_disk, to_store

_BATCH: Final = 200
#: The maximum number of names of unmoved files in the summary, for each fate.
_MAX_NAMES: Final = 20
#: Extra time for clients to begin a download, beyond the expiry of its signed URL.
_MARGIN: Final = timedelta(minutes=5)


class NoStore(ValueError):
    """The project has no store. Hint: set STORAGE_URL."""


class StillWritten(ValueError):
    """The store would still receive new files. Hint: add new=disk to STORAGE_URL first."""


@dataclass(slots=True)
class Moved:
    """The numbers of files by fate, of moved bytes, and of store copies deleted or still kept."""

    fates: Counter[Fate] = field(default_factory=Counter)
    nbytes: int = 0
    copies_dropped: int = 0
    copies_waiting: int = 0
    names: dict[Fate, list[str]] = field(default_factory=dict)

    def add(self, files: list[Wanted], fates: list[Fate]) -> None:
        for file, fate in zip(files, fates, strict=True):
            self.fates[fate] += 1
            if fate is Fate.MOVED:
                self.nbytes += file.digest.nbytes
            elif fate is not Fate.THERE:
                named = self.names.setdefault(fate, [])
                if len(named) < _MAX_NAMES:
                    named.append(file.name)

    @property
    def failed(self) -> int:
        """The number of missing or damaged files."""
        return self.fates[Fate.MISSING] + self.fates[Fate.DAMAGED]


def move(
    *, to: str, dry_run: bool = False, progress: Callable[[int], None], now: datetime
) -> Moved:
    """Move every published file to the ``s3`` store or to the ``disk``.

    `progress` is called after each batch with the number of its files.  If a call was interrupted,
    another call moves the remaining files.  Raises `NoStore`, `StoreAway` and `StoreError`,
    `storage.DeletionsHeld` while a backup is running, and `StillWritten` if files are moved to the
    disk while new files are written to the store.
    """
    store = storage.store()
    if store is None:
        raise NoStore("The project has no store; all files are on disk. Hint: set STORAGE_URL.")
    if to == "disk" and store.config.writes and not dry_run:
        msg = "The store still receives new files. Hint: add new=disk to STORAGE_URL and restart."
        raise StillWritten(msg)
    act, done = (to_store if to == "s3" else to_disk), Moved()
    for rows in served_in_batches(_BATCH):
        files = [Wanted(row.name, Digest(row.nbytes, row.md5, row.sha256)) for row in rows]
        with storage.deletions_allowed():
            done.add(files, act(store, files, dry_run=dry_run))
        progress(len(files))
    if to == "disk":
        before = now - store.config.expires - _MARGIN
        with storage.deletions_allowed():
            done.copies_dropped, done.copies_waiting = drop_copies(
                store, before=before, dry_run=dry_run
            )
    return done
