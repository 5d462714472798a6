"""Keep the files that BOINC's submitters send before their work.

Theory of operation.  A submitter calls a file by a name of his own, which is never given to other
content while the file lives (`FileChanged`).  Clients know the file by the name of its row, as any
other: two people may use one name, and a content that both send is stored once.  The file stays
until the moment that the submitter says, at least as long as any (`file_hold`); then it lives as
long as a workunit refers to it.  A file that hosts fetch elsewhere is a row without content here.
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

#: How long one stays that is for a batch, if that does not expire.
FOR_A_BATCH = timedelta(days=30)
#: What stays for good stays until then.
FOR_EVER = timedelta(days=36_500)


class FileChanged(ValueError):
    """A name is used again for other content. Hint: put the content's hash into the name."""

    def __init__(self, name: str) -> None:
        """Say it in BOINC's words."""
        self.name = name
        super().__init__(
            f"file immutability violation for {name}: the name stands for other content. "
            "Hint: put the content's hash into the name."
        )


def until(*, delete_at: datetime | None, batch: Batch | None, now: datetime) -> datetime:
    """How long a file stays: as its submitter says, or for its batch, and never less than any."""
    shortest = now + settings.PROJECT.file_hold
    if batch is not None and delete_at is None:
        return max(shortest, batch.expire_at or now + FOR_A_BATCH)
    return max(shortest, delete_at or shortest)


def absent(
    account: Account, names: Sequence[str], *, until: datetime, now: datetime
) -> tuple[int, ...]:
    """Which of these files, by their places, must be sent; the others stay until the moment.

    Raises `storage.BadFileName`, `quotas.QuotaExceeded`.
    """
    del now  # a file that is doomed is gone, whenever that was
    for name in names:
        storage.check_name(name)
    with transaction.atomic():
        quotas.lock(account)
        known = _mine(account, names)
        _hold(account, known.values(), until)
        quotas.require_bytes(account)
    return tuple(index for index, name in enumerate(names) if name not in known)


def keep(
    account: Account,
    brought: Sequence[tuple[str, storage.Staged]],
    *,
    until: datetime,
    now: datetime,
) -> None:
    """Keep files under their submitter's names.

    To send the same file again changes nothing but how long it stays.  Raises `FileChanged`,
    `files.FileInMotion`, `storage.BadFileName`, `quotas.QuotaExceeded`.
    """
    by_name: dict[str, storage.Staged] = {}
    for name, staged in brought:
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
    """The physical name of each file: of the account's own names first; raises `UnknownFiles`."""
    asked = set(names)
    if not asked:
        return {}
    own = JobFile.objects.filter(account=account, name__in=asked, file__doomed_at__isnull=True)
    found = dict(own.values_list("name", "file__name"))
    others = asked - found.keys()
    found |= {
        name: name
        for name in File.objects.filter(name__in=others, doomed_at__isnull=True).values_list(
            "name", flat=True
        )
    }
    if missing := asked - found.keys():
        raise UnknownFiles(missing)
    return found


def keep_elsewhere(
    account: Account | None, wanted: Mapping[str, RemoteFile], *, now: datetime
) -> dict[str, str]:
    """The physical name of each file that hosts fetch elsewhere; made, if it is new.

    If they are somebody's, they are held for a while, for the work that is to come.
    """
    if not wanted:
        return {}
    digests = {_digest(key): key for key in wanted}
    with transaction.atomic():
        known = _locked(digests, ())
        missing = sorted(digests.keys() - {file.sha256 for file in known})
        if missing:
            _make_elsewhere({digest: wanted[digests[digest]] for digest in missing}, now)
            known = _locked(digests, ())
        if account is not None:
            _hold(account, known, now + settings.PROJECT.file_hold)
    return {digests[file.sha256]: file.name for file in known}


def hold_for_ever(account: Account, names: Iterable[str], *, now: datetime) -> None:
    """Keep files, by their physical names, as long as the account has not given them up."""
    with transaction.atomic():
        _hold(account, _locked((), sorted(set(names))), now + FOR_EVER)


def _make_elsewhere(wanted: Mapping[str, RemoteFile], now: datetime) -> None:
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
        ignore_conflicts=True,  # somebody else made it meanwhile
    )


def _digest(key: str) -> str:
    return hashlib.sha256(f"elsewhere\n{key}".encode()).hexdigest()


def _name(account: Account, wanted: Mapping[str, KnownFile], now: datetime) -> None:
    """Give files names that no living file has; raises `FileChanged`, `FileInMotion`."""
    mine = JobFile.objects.filter(account=account, name__in=wanted)
    mine.filter(file__doomed_at__isnull=False).delete()
    JobFile.objects.bulk_create(
        [
            JobFile(account=account, name=name, file_id=file.id, created_at=now)
            for name, file in sorted(wanted.items())
        ],
        ignore_conflicts=True,
    )
    # Looked at afterwards: another program of theirs may have named one in the same moment.
    known = _mine(account, wanted)
    for name, file in wanted.items():
        if name not in known:
            msg = f"The file {name} was deleted meanwhile. Hint: send it again."
            raise download_files.FileInMotion(msg)
        if known[name].id != file.id:
            raise FileChanged(name)


def _mine(account: Account, names: Iterable[str]) -> dict[str, KnownFile]:
    """The account's own files of these names, locked so that they cannot be doomed."""
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


def _hold(account: Account, known: Iterable[KnownFile], until: datetime) -> None:
    if ids := sorted({file.id for file in known}):
        file_holds.hold(ids, account, until=until)
