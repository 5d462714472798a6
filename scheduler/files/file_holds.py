"""Hold files that no workunit refers to yet, and let them go again.

Theory of operation.  A hold is a person's row beside a file, until a moment.  Whoever dooms files
leaves those alone that are held (`files.doom_unused`); the housekeeper drops holds that are past.
A submission holds what it keeps in its first pass, and gives these holds up when it commits, for
then the workunits refer to the files, or when it is refused.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from datetime import datetime

from django.conf import settings
from django.db import transaction

from scheduler import storage
from scheduler.files import download_files
from scheduler.files.download_files import FileInMotion, doom_unused
from scheduler.models import Account, FileHold
from scheduler.people import quotas
from scheduler.sql import fetch

#: So many files are asked for by one statement.
_AT_ONCE = 10_000


class Holds:
    """The holds of one submission on the files that it kept, whatever their number."""

    def __init__(self, account: Account | None, *, now: datetime) -> None:
        """Hold for this person, for `file_hold` of the project from now on."""
        self._account, self.until = account, now + settings.PROJECT.file_hold
        self._made, self._files = array("q"), array("q")

    def add(self, file_ids: Iterable[int]) -> list[int]:
        """Hold files that the caller's transaction has locked; returns those not held before."""
        ids = sorted(set(file_ids))
        self._files.extend(ids)
        if self._account is None or not ids:
            return []
        made = hold(ids, self._account, until=self.until)
        self._made.extend(made)
        return made

    def lock(self) -> None:
        """Lock all files until the caller's transaction ends; raises `FileInMotion`."""
        ids = sorted(set(self._files))
        for some in _slices(ids):
            if len(fetch("files/lock_kept_files", {"ids": some})) < len(some):
                msg = "An input file was deleted meanwhile. Hint: submit again."
                raise FileInMotion(msg)

    def give_up(self) -> list[int]:
        """Give up the holds that were made, unless renewed by others; returns the files."""
        return [file for some in _slices(self._made) for file in self._give_up(some)]

    def abandon(self, *, now: datetime) -> None:
        """Give up the holds, and what nobody else refers to: nothing came of the submission."""
        for some in _slices(self._made):
            with transaction.atomic():
                _lock(some)
                if ids := self._give_up(some):
                    doom_unused(ids, now=now)

    def _give_up(self, ids: list[int]) -> list[int]:
        if self._account is None:
            return []
        params = {"ids": ids, "until": self.until, "account_id": self._account.pk}
        return [row["file_id"] for row in fetch("files/give_up_holds", params)]


def hold(file_ids: Sequence[int], account: Account, *, until: datetime) -> list[int]:
    """Hold locked files for somebody, or hold them longer; returns those not held before."""
    params = {"ids": list(file_ids), "account_id": account.pk, "until": until}
    return [row["file_id"] for row in fetch("files/hold_files", params) if row["made"]]


def renew(digests: Sequence[str], account: Account, *, now: datetime) -> list[str]:
    """Hold those of these contents that the server has for a while more; returns them.

    Raises `quotas.QuotaExceeded`.
    """
    with transaction.atomic():
        quotas.lock(account)
        known = fetch("files/lock_known_files", {"contents": sorted(set(digests)), "names": []})
        hold([row["id"] for row in known], account, until=now + settings.PROJECT.file_hold)
        quotas.require_bytes(account)
    return sorted(row["sha256"] for row in known)


def keep(staged: storage.Staged, hint: str, account: Account, *, now: datetime) -> bool:
    """Keep a staged content and hold it; tells whether it was not known before.

    Raises `quotas.QuotaExceeded`, `FileInMotion`.
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
    """Give one's hold on a content up; tells whether there was one."""
    with transaction.atomic():
        mine = FileHold.objects.filter(account=account, file__sha256=sha256)
        ids = list(mine.values_list("file_id", flat=True))
        _lock(ids)
        FileHold.objects.filter(account=account, file_id__in=ids).delete()
        if ids:
            doom_unused(ids, now=now)
    return bool(ids)


def _lock(ids: Sequence[int]) -> None:
    """Files before their holds, as those do who renew one."""
    fetch("files/lock_files", {"ids": sorted(ids)})


def _slices(ids: Sequence[int]) -> Iterable[list[int]]:
    return (list(ids[first : first + _AT_ONCE]) for first in range(0, len(ids), _AT_ONCE))
