"""Move files between disk and store, verified, resumable.

Theory of operation.  Whoever looks for a file looks on the disk first and then in the store, so a
file may be in either, or in both, at any moment: it is copied, verified, and only then deleted
where it came from.  A signed address of the store may have been given out just before a file came
back to the disk: its copy in the store is deleted by a later call, when no such address lasts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from scheduler import storage
from scheduler.models import File
from scheduler.storage.digests import Digest
from scheduler.storage.moving import Fate, Wanted, drop_copies, to_disk, to_store

_BATCH: Final = 200
#: As many names of files that could not be moved are kept.
_NAMED: Final = 20
#: Who was sent to the store has this long to begin, beyond the signed address' own time.
_MARGIN: Final = timedelta(minutes=5)


class NoStore(ValueError):
    """There is no store to move files to or from. Hint: set STORAGE_URL."""


class StillWritten(ValueError):
    """New files would still go to the store. Hint: add new=disk to STORAGE_URL first."""


@dataclass(slots=True)
class Moved:
    """What was done: files by their fate, bytes moved, copies dropped and still waiting."""

    fates: Counter[Fate] = field(default_factory=Counter)
    nbytes: int = 0
    copies_dropped: int = 0
    copies_waiting: int = 0
    names: dict[Fate, list[str]] = field(default_factory=dict)

    def add(self, files: list[Wanted], fates: list[Fate]) -> None:
        """Count a batch."""
        for file, fate in zip(files, fates, strict=True):
            self.fates[fate] += 1
            if fate is Fate.MOVED:
                self.nbytes += file.digest.nbytes
            elif fate is not Fate.THERE:
                named = self.names.setdefault(fate, [])
                if len(named) < _NAMED:
                    named.append(file.name)

    @property
    def failed(self) -> int:
        """How many files were not what or where they must be."""
        return self.fates[Fate.MISSING] + self.fates[Fate.DAMAGED]


def how_many() -> int:
    """Return how many files there are to be looked at."""
    return File.objects.filter(doomed_at=None, urls="").count()


def move(
    *, to: str, dry_run: bool = False, progress: Callable[[int], None], now: datetime
) -> Moved:
    """Move every published file to the ``s3`` store or to the ``disk``.

    `progress` is told of each batch how many files it had.  Repeating it goes on where it was.
    Raises `NoStore`; `StillWritten` if new files would go where these come from; and what
    `storage.store` raises.
    """
    store = storage.store()
    if store is None:
        msg = "Files live on the disk, and there is no store. Hint: set STORAGE_URL."
        raise NoStore(msg)
    if to == "disk" and store.config.writes and not dry_run:
        msg = "New files still go to the store. Hint: add new=disk to STORAGE_URL and restart."
        raise StillWritten(msg)
    act, done = (to_store if to == "s3" else to_disk), Moved()
    for files in _batches():
        done.add(files, act(store, files, dry_run=dry_run))
        progress(len(files))
    if to == "disk":
        before = now - store.config.expires - _MARGIN
        done.copies_dropped, done.copies_waiting = drop_copies(
            store, before=before, dry_run=dry_run
        )
    return done


def _batches() -> Iterator[list[Wanted]]:
    """All files, also those of submissions that commit meanwhile, as they are known by then."""
    last = 0
    while True:
        rows = File.objects.filter(doomed_at=None, urls="", pk__gt=last).order_by("pk")[:_BATCH]
        found = list(rows.values_list("pk", "name", "nbytes", "md5", "sha256"))
        if not found:
            return
        last = found[-1][0]
        yield [Wanted(name, Digest(nbytes, md5, sha256)) for _, name, nbytes, md5, sha256 in found]
