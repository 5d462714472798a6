"""Holds that keep files to which no workunit refers yet.

Theory of operation.  A hold is a row that keeps a file for an account until a given time.  Held
files are not marked for deletion (`download_files.mark_unused_for_deletion`); the housekeeper drops
expired holds.  A submission holds the files that it stores in its first pass.  It gives up these
holds when it commits, because the workunits then refer to the files, or when it is refused.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from scheduler import storage
from scheduler.files import download_files
from scheduler.files.download_files import FileInMotion, mark_unused_for_deletion
from scheduler.models import Account, FileHold
from scheduler.people import quotas
from scheduler.sql import fetch

#: The maximum number of files in one statement.
_MAX_PER_STATEMENT = 10_000


class Holds:
    """The holds of one submission on its files."""

    def __init__(self, account: Account | None, *, now: datetime) -> None:
        """Prepare holds that last for the project's `file_hold`.

        If `account` is None, no holds are created.
        """
        self._account, self.until = account, now + settings.PROJECT.file_hold
        self._made, self._files = array("q"), array("q")

    def add(self, file_ids: Iterable[int]) -> list[int]:
        """Hold files that the caller has locked; return the ids of the newly held files."""
        ids = sorted(set(file_ids))
        self._files.extend(ids)
        if self._account is None or not ids:
            return []
        made = hold(ids, self._account, until=self.until)
        self._made.extend(made)
        return made

    def lock(self) -> None:
        """Lock all files until the transaction ends; raises `FileInMotion` for a deleted file."""
        ids = sorted(set(self._files))
        for slice_ids in _slices(ids):
            if len(fetch("files/lock_kept_files", {"ids": slice_ids})) < len(slice_ids):
                raise FileInMotion(
                    "An input file was deleted before the commit. Hint: submit again."
                )

    def give_up(self) -> list[int]:
        """Delete the created holds that were not renewed later; return the ids of their files."""
        return [file for slice_ids in _slices(self._made) for file in self._give_up(slice_ids)]

    def abandon(self, *, now: datetime) -> None:
        """Delete the holds of a failed submission, and mark unused files for deletion."""
        for slice_ids in _slices(self._made):
            with transaction.atomic():
                _lock(slice_ids)
                if ids := self._give_up(slice_ids):
                    mark_unused_for_deletion(ids, now=now)

    def _give_up(self, ids: list[int]) -> list[int]:
        if self._account is None:
            return []
        params = {"ids": ids, "until": self.until, "account_id": self._account.pk}
        return [row["file_id"] for row in fetch("files/give_up_holds", params)]


def hold(file_ids: Sequence[int], account: Account, *, until: datetime) -> list[int]:
    """Hold locked files for an account, or extend its holds; return the ids of newly held files."""
    params = {"ids": list(file_ids), "account_id": account.pk, "until": until}
    return [row["file_id"] for row in fetch("files/hold_files", params) if row["made"]]


def renew(digests: Sequence[str], account: Account, *, now: datetime) -> list[str]:
    """Hold the existing files with these SHA-256s; return the SHA-256s of the existing files.

    Existing holds of the account are extended.  Raises `quotas.QuotaExceeded`.
    """
    with transaction.atomic():
        quotas.lock(account)
        file_rows = fetch("files/lock_known_files", {"contents": sorted(set(digests)), "names": []})
        hold([row["id"] for row in file_rows], account, until=now + settings.PROJECT.file_hold)
        quotas.require_bytes(account)
    return sorted(row["sha256"] for row in file_rows)


def keep(staged: storage.Staged, hint: str, account: Account, *, now: datetime) -> bool:
    """Make a staged file downloadable, and hold it for the account for the project's `file_hold`.

    Returns True if the server had no file with this content.  Raises `quotas.QuotaExceeded` and
    `FileInMotion`.
    """
    sha256 = staged.digest.sha256
    with transaction.atomic():
        quotas.lock(account)
        is_new = not fetch("files/lock_known_files", {"contents": [sha256], "names": []})
        by_sha, _ = download_files.keep({sha256: download_files.Wanted(staged, hint)}, now=now)
        until = now + settings.PROJECT.file_hold
        hold([by_sha[sha256].id], account, until=until)
        quotas.require_bytes(account)
    return is_new


def give_up(sha256: str, account: Account, *, now: datetime) -> bool:
    """Delete an account's hold on a content; return whether the hold existed."""
    with transaction.atomic():
        holds = FileHold.objects.filter(account=account, file__sha256=sha256)
        ids = list(holds.values_list("file_id", flat=True))
        _lock(ids)
        FileHold.objects.filter(account=account, file_id__in=ids).delete()
        if ids:
            mark_unused_for_deletion(ids, now=now)
    return bool(ids)


def holds_of(account: Account, *, now: datetime) -> QuerySet[FileHold]:
    """Return an account's unexpired holds, with their files."""
    holds = FileHold.objects.filter(account=account, until__gt=now, file__doomed_at=None)
    return holds.select_related("file")


def _lock(ids: Sequence[int]) -> None:
    """Lock the files, as `renew` does before it locks holds, so that no deadlock is possible."""
    fetch("files/lock_files", {"ids": sorted(ids)})


def _slices(ids: Sequence[int]) -> Iterable[list[int]]:
    return (
        list(ids[first : first + _MAX_PER_STATEMENT])
        for first in range(0, len(ids), _MAX_PER_STATEMENT)
    )
