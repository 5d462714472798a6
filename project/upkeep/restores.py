"""Restores a backup into an empty database and an empty VAR_DIR.

Everything is checked before anything is written: the owner and the modes of the backup, the
versions, the hash of each file, the target (`restore_checks`).  The files are copied to a temporary
folder of VAR_DIR, the database is loaded in one transaction, and only then are the files moved to
their places.  So a restore that fails before or during the load leaves an empty database and no
files.  From the load on until the end there is the file `storage.INCOMPLETE_RESTORE` in VAR_DIR: if
the restore fails or is killed in between, the project does not start.

Clients have gone on since the backup.  Results that were sent later are unknown to the restored
database: clients get the order to abort them, and reports of them are acknowledged and ignored.
Results that clients reported later are sent again as lost results.  Ids that were given later must
not be given again, because clients, accounts and file names still use them: the sequences of
`SKIPPED_IDS` skip a range.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction

from project.upkeep import copies, dumps, manifest, restore_checks, versions
from project.upkeep.manifest import Manifest
from project.upkeep.restore_checks import NEW_KEYS
from scheduler import storage
from scheduler.models.audit import AuditEntry
from scheduler.people import audit

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

#: How many ids of each table a restore skips.  Clients store the ids of hosts, accounts, teams and
#: batches in 32 bits; the other ids have 64 bits.
SKIPPED_IDS: Final[Mapping[str, int]] = {
    "account": 1_000_000,
    "batch": 1_000_000,
    "host": 1_000_000,
    "team": 1_000_000,
    "file": 1_000_000_000,
    "result": 1_000_000_000,
    "workunit": 1_000_000_000,
}
_DRAFT: Final = "restore.new"
_PRIVATE_FOLDER, _PRIVATE_FILE = 0o700, 0o600
_SKIP = """\
SELECT setval(sequence, nextval(sequence) + %s) FROM pg_get_serial_sequence(%s, 'id') AS sequence
"""


@dataclass(frozen=True, slots=True)
class Restored:
    """A restored backup, and the migrations that were applied to it afterwards."""

    manifest: Manifest
    migrated: list[str]


class RestoreIncomplete(Exception):
    """The database was loaded, and the restore failed afterwards; the text contains a hint."""


def restore(
    source: Path, *, advance: Callable[[int], None] = lambda _nbytes: None, now: datetime
) -> Restored:
    """Restore a backup, and apply the migrations that it lacks.

    `advance` is called with the number of bytes that were read, of twice `Manifest.nbytes`.  Raises
    BadBackup, RestoreRefused, `copies.Unreadable` and `dumps.DumpFailed`; then nothing has changed.
    Raises RestoreIncomplete for a failure after the load.
    """
    source = source.absolute()
    described = restore_checks.check(source, advance, now=now)
    var: Path = settings.VAR_DIR
    draft = var / _DRAFT
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=_PRIVATE_FOLDER)
    try:
        _copy(source, draft, advance)
        _load(source, described)
        migrated = _complete(source, draft, described, now=now)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Restored(described, migrated)


def _load(source: Path, described: Manifest) -> None:
    """Load the database; from then on the restore is marked as incomplete."""
    marker = settings.VAR_DIR / storage.INCOMPLETE_RESTORE
    marker.write_text(f"{source}\n", encoding="utf-8")
    os.sync()
    try:
        dumps.load(source / manifest.DUMP, pg_dump=described.pg_dump)
    except dumps.DumpFailed:
        marker.unlink()
        raise


def _complete(source: Path, draft: Path, described: Manifest, *, now: datetime) -> list[str]:
    """Complete the restore after the load; return the migrations that were applied.

    Raises RestoreIncomplete.
    """
    var: Path = settings.VAR_DIR
    try:
        _skip_ids()
        _move(draft, var, with_keys=described.with_keys)
        migrated = versions.missing_migrations()
        call_command("migrate", interactive=False, verbosity=0, stdout=StringIO())
        with transaction.atomic():
            details = {"created_at": described.created_at, "version": described.version}
            event = AuditEntry.Event.BACKUP_RESTORED
            audit.record(event, subject=str(source), details=details, now=now)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise RestoreIncomplete(
            "The restore is incomplete: the database is loaded, but the rest failed "
            f"({reason}).\nHint: the project does not start in this state. Remove the cause, and "
            "restore again into a new VAR_DIR and, with DATABASE_URL, another empty database."
        ) from error
    (var / storage.INCOMPLETE_RESTORE).unlink()
    return migrated


# Writing


def _copy(source: Path, draft: Path, advance: Callable[[int], None]) -> None:
    """Copy keys and files to the temporary folder, and verify them again."""
    owner = settings.VAR_DIR.stat()
    copier = copies.Copier(
        owner=(owner.st_uid, owner.st_gid) if not os.geteuid() else None, advance=advance
    )
    for sha256, path in restore_checks.sums(source):
        if path == manifest.DUMP:
            continue
        is_key = path.startswith(f"{manifest.KEYS}/")
        mode = _PRIVATE_FILE if is_key else 0o666 & ~settings.FILE_UMASK
        if copier.copy(source / path, draft / path, mode=mode) != sha256:
            raise restore_checks.changed(path)
    os.sync()


def _move(draft: Path, var: Path, *, with_keys: bool) -> None:
    """Move the copies to their places; other keys are moved to a folder, and none is deleted.

    Every command creates the keys of `NEW_KEYS` if they are missing, so they may be of no use.
    """
    keys: Path = settings.KEYS_DIR
    copied = {path.name for path in (draft / manifest.KEYS).iterdir()} if with_keys else set()
    for name in sorted(NEW_KEYS | copied) if with_keys else ():
        _replace_key(keys / name, draft / manifest.KEYS / name)
    for part, target in ((manifest.FILES, var), (manifest.KEYS, keys)):
        for path in sorted((draft / part).iterdir()) if (draft / part).is_dir() else ():
            if path.is_dir() and (target / path.name).is_dir():
                shutil.rmtree(target / path.name)  # a tree of empty folders
            path.replace(target / path.name)


def _replace_key(key: Path, copied: Path) -> None:
    """Move a key to the folder of replaced keys, unless the copy has the same content."""
    if not key.exists() or (copied.exists() and key.read_bytes() == copied.read_bytes()):
        return
    folder = key.parent / copies.REPLACED_KEYS
    folder.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
    target = folder / key.name
    number = 1
    while target.exists():
        number += 1
        target = folder / f"{key.name}.{number}"
    key.rename(target)


def _skip_ids() -> None:
    with connection.cursor() as cursor:
        for table, ids in SKIPPED_IDS.items():
            cursor.execute(_SKIP, [ids, table])
