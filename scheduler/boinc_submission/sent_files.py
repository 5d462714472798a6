"""Stores the files that BOINC's submitters send before their work.

Theory of operation.  A submitter chooses a name for each file; while the file exists, the submitter
cannot use the name for other content (`FileChanged`).  Clients use the physical name, as for any
other file.  So two submitters may use the same name, and content that both send is stored once.  A
file is kept until the time that the submitter requests, and at least for `file_hold`.  After that
time, it is kept as long as a workunit refers to it.  A file that hosts download from another server
has a row in the database, but no stored content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from scheduler import storage
from scheduler.boinc_submission.rules.templated import RemoteFile
from scheduler.files import download_files, file_holds
from scheduler.files.download_files import KnownFile, UnknownFiles, Wanted
from scheduler.models import Account, Batch, File, JobFile
from scheduler.people import quotas
from scheduler.sql import fetch_into, fetch_one

#: The time for which a file of a batch that does not expire is held.
BATCH_FILE_HOLD = timedelta(days=30)
#: The time for which a permanent file is held.
PERMANENT_HOLD = timedelta(days=36_500)


class FileChanged(ValueError):
    """The name is in use for other content. Hint: put the content's hash into the name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"file immutability violation for {name}: the name is in use for other content. "
            "Hint: put the content's hash into the name."
        )


def until(*, delete_at: datetime | None, batch: Batch | None, now: datetime) -> datetime:
    """Return the time until which a file is held: `delete_at` or the expiry of the batch.

    The time is at least `file_hold` from now.
    """
    earliest = now + settings.PROJECT.file_hold
    if batch is not None and delete_at is None:
        return max(earliest, batch.expire_at or now + BATCH_FILE_HOLD)
    return max(earliest, delete_at or earliest)


def absent(account: Account, names: Sequence[str], *, until: datetime) -> tuple[int, ...]:
    """Return the positions of the missing files; the other files are held until `until`.

    Raises `storage.BadFileName`, `quotas.QuotaExceeded`.
    """
    for name in names:
        storage.check_name(name)
    with transaction.atomic():
        quotas.lock(account)
        known_files = _own_files(account, names)
        _hold(account, known_files.values(), until)
        quotas.require_bytes(account)
    return tuple(index for index, name in enumerate(names) if name not in known_files)


def keep(
    account: Account, files: Sequence[tuple[str, storage.Staged]], *, until: datetime, now: datetime
) -> None:
    """Store files under their submitter's names.

    If a file is already stored, it is only held longer.  Raises `FileChanged`,
    `files.FileInMotion`, `storage.BadFileName`, `quotas.QuotaExceeded`.
    """
    by_name: dict[str, storage.Staged] = {}
    for name, staged in files:
        storage.check_name(name)
        if by_name.setdefault(name, staged).digest != staged.digest:
            raise FileChanged(name)
    wanted = {staged.digest.sha256: Wanted(staged, hint=name) for name, staged in by_name.items()}
    with transaction.atomic():
        quotas.lock(account)
        by_sha, _ = download_files.keep(wanted, now=now)
        _hold(account, by_sha.values(), until)
        quotas.require_bytes(account)
        _name(account, {n: by_sha[staged.digest.sha256] for n, staged in by_name.items()}, now)


def find(account: Account | None, names: Iterable[str]) -> dict[str, str]:
    """Return the physical name of each file, by the requested name.

    The account's own names have precedence over physical names.  Raises `UnknownFiles`.
    """
    requested = set(names)
    if not requested:
        return {}
    own = JobFile.objects.filter(account=account, name__in=requested, file__doomed_at__isnull=True)
    physical_names = dict(own.values_list("name", "file__name"))
    others = requested - physical_names.keys()
    physical_names |= {
        name: name
        for name in File.objects.filter(name__in=others, doomed_at__isnull=True).values_list(
            "name", flat=True
        )
    }
    if missing := requested - physical_names.keys():
        raise UnknownFiles(missing)
    return physical_names


def keep_remote_files(
    account: Account | None, wanted: Mapping[str, RemoteFile], *, now: datetime
) -> dict[str, str]:
    """Return the physical names of files on other servers, by `key_of`; adds rows for new files.

    If `account` is not None, the account holds the files for `file_hold`, so that they are not
    deleted before the work is submitted.
    """
    if not wanted:
        return {}
    digests = {_digest(key): key for key in wanted}
    with transaction.atomic():
        known_files = _locked(digests, ())
        missing = sorted(digests.keys() - {file.sha256 for file in known_files})
        if missing:
            _create_remote_files({digest: wanted[digests[digest]] for digest in missing}, now)
            known_files = _locked(digests, ())
        if account is not None:
            _hold(account, known_files, now + settings.PROJECT.file_hold)
    return {digests[file.sha256]: file.name for file in known_files}


def hold_permanently(account: Account, names: Iterable[str], *, now: datetime) -> None:
    """Hold the files with these physical names for `PERMANENT_HOLD`."""
    with transaction.atomic():
        _hold(account, _locked((), sorted(set(names))), now + PERMANENT_HOLD)


def _create_remote_files(wanted: Mapping[str, RemoteFile], now: datetime) -> None:
    ids = (fetch_one("files/draw_file_ids", {"count": len(wanted)}) or {})["ids"]
    File.objects.bulk_create(
        [
            File(
                id=id_,
                name=download_files.physical_name(f"jf_{remote.md5}", digest, id_),
                sha256=digest,
                md5=remote.md5,
                nbytes=remote.nbytes,
                urls="\n".join(remote.urls),
                created_at=now,
            )
            for id_, (digest, remote) in zip(ids, wanted.items(), strict=True)
        ],
        ignore_conflicts=True,  # another process created the row first
    )


def _digest(key: str) -> str:
    return hashlib.sha256(f"elsewhere\n{key}".encode()).hexdigest()


def _name(account: Account, wanted: Mapping[str, KnownFile], now: datetime) -> None:
    """Store the account's names for files; raises `FileChanged`, `FileInMotion`."""
    own_names = JobFile.objects.filter(account=account, name__in=wanted)
    own_names.filter(file__doomed_at__isnull=False).delete()
    JobFile.objects.bulk_create(
        [
            JobFile(account=account, name=name, file_id=file.id, created_at=now)
            for name, file in sorted(wanted.items())
        ],
        ignore_conflicts=True,
    )
    # Check after the insert, because another program of the submitter may use a name concurrently.
    own_files = _own_files(account, wanted)
    for name, file in wanted.items():
        if name not in own_files:
            msg = f"The file {name} was deleted in the meantime. Hint: send it again."
            raise download_files.FileInMotion(msg)
        if own_files[name].id != file.id:
            raise FileChanged(name)


def _own_files(account: Account, names: Iterable[str]) -> dict[str, KnownFile]:
    """Return the account's files by name, and lock the rows against marking for deletion."""
    physical = dict(
        JobFile.objects.filter(
            account=account, name__in=set(names), file__doomed_at__isnull=True
        ).values_list("name", "file__name")
    )
    locked = {file.name: file for file in _locked((), sorted(set(physical.values())))}
    return {name: locked[other] for name, other in physical.items() if other in locked}


def _locked(contents: Iterable[str], names: Iterable[str]) -> list[KnownFile]:
    return fetch_into(
        KnownFile, "files/lock_known_files", {"contents": sorted(contents), "names": sorted(names)}
    )


def _hold(account: Account, files: Iterable[KnownFile], until: datetime) -> None:
    if ids := sorted({file.id for file in files}):
        file_holds.hold(ids, account, until=until)
