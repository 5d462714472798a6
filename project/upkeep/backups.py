"""Makes a backup of the database, the keys and the files while the project runs.

Theory of operation.  The deletion of files is held first.  Then the database is dumped from one
snapshot, and after that the files are copied.  So the backup contains every file that a row of the
dump refers to: it existed when the snapshot was taken, and cannot have been deleted since.  It may
also contain later files, which no row refers to; `fsck` and the housekeeper treat them as files of
an interrupted request.  A row that was purged after the snapshot is in the dump and in the archive,
and will be purged again.

A backup gets its name when it is complete and synced to the disk.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.core.management.base import CommandError
from django.db import transaction

from project.upkeep import copies, dumps, manifest, processes, versions
from project.upkeep.manifest import Manifest
from scheduler import storage
from scheduler.health import installation
from scheduler.models import Account, Batch, File, Host, Result, Workunit
from scheduler.models.audit import AuditEntry
from scheduler.people import audit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

#: The tables whose rows are counted in the manifest.
COUNTED: Final = (Account, Host, Batch, Workunit, Result, File)
_PRIVATE_FOLDER, _PRIVATE_FILE = 0o700, 0o600


class BackupRefused(Exception):
    """The backup cannot be made as requested; the text contains a hint."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A complete backup: its folder and its manifest; `skipped` are paths that are not files.

    `is_recorded` means that the audit log has an entry.
    """

    folder: Path
    manifest: Manifest
    skipped: tuple[str, ...]
    is_recorded: bool


def size() -> int:
    """Return the number of bytes to copy: those of the database, the keys and the files."""
    files = copies.total_size(copies.project_files(settings.VAR_DIR))
    keys = copies.total_size(copies.key_files(settings.KEYS_DIR))
    return dumps.database_nbytes() + files + keys


def back_up(
    destination: Path,
    *,
    with_files: bool = True,
    with_keys: bool = True,
    advance: Callable[[int], None] = lambda _nbytes: None,
    now: datetime,
) -> Backup:
    """Make the backup `destination`, a new folder that only its owner can open.

    The database may be of an earlier version: then no entry is written to its audit log, and the
    caller calls `record` after the migration.  `advance` is called with the number of copied bytes,
    again and again.  Raises BackupRefused, `copies.Unreadable`, `dumps.DumpFailed`,
    `storage.BackupRuns` and OSError; then there is no new folder, unless the commit of the audit
    entry or the last sync failed.  Raises `processes.WrongUser`, and CommandError
    if VAR_DIR and the database belong to different projects or a restore was not completed.
    """
    destination = destination.absolute()
    processes.check_user()
    is_current = not versions.missing_migrations()
    _check_owner(is_current=is_current)
    dumps.find_dumper()
    _check_destination(destination)
    _check_room(destination.parent, with_files=with_files)
    draft = destination.parent / f".{destination.name}.{secrets.token_hex(4)}.part"
    draft.mkdir(mode=_PRIVATE_FOLDER)
    writer = _Writer(draft, advance)
    try:
        with storage.deletions_held():
            described = _dump_database(writer)
            writer.copy_project(with_keys=with_keys, with_files=with_files)
        written = writer.finish(
            described, with_keys=with_keys, with_files=with_files, created_at=now
        )
        os.sync()
        _check_destination(destination)
        backup = Backup(destination, written, tuple(writer.skipped), is_recorded=is_current)
        try:
            with transaction.atomic():
                # A backup whose entry cannot be written gets no name.
                if is_current:
                    record(backup, now=now)
                draft.rename(destination)
        except BaseException:
            # The commit may have failed after the renaming.
            if not draft.exists():
                destination.rename(draft)
            raise
        _sync_folder(destination.parent)
    except BaseException:
        writer.close()
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return backup


def record(backup: Backup, *, now: datetime) -> None:
    """Write an entry about the backup to the audit log."""
    details = {"with_keys": backup.manifest.with_keys, "with_files": backup.manifest.with_files}
    event = AuditEntry.Event.BACKUP_CREATED
    audit.record(event, subject=str(backup.folder), details=details, now=now)


def _check_owner(*, is_current: bool) -> None:
    """Raise CommandError if VAR_DIR and the database belong to different projects.

    The models must not read a database of an earlier version.
    """
    installation.refuse_incomplete_restore()
    if is_current:
        installation.claim_folder()
        return
    identifier = dumps.project_identifier()
    if identifier and (owner := storage.record_owner(identifier)) != identifier:
        raise CommandError(
            f"{settings.VAR_DIR} holds the files of another project ({owner}), not of the project "
            f"in the database ({identifier}).\nHint: correct VAR_DIR or DATABASE_URL."
        )


def _check_destination(destination: Path) -> None:
    if os.path.lexists(destination):
        raise _exists(destination)
    parent = destination.parent
    if not parent.is_dir():
        msg = f"{parent} is not a folder, so {destination.name} cannot be created in it."
        raise BackupRefused(f"{msg}\nHint: create the folder first.")
    var = settings.VAR_DIR.resolve()
    if var in (parent.resolve(), *parent.resolve().parents):
        msg = f"{destination} is inside VAR_DIR ({var}), and would be lost together with it."
        raise BackupRefused(f"{msg}\nHint: choose a folder on another disk.")
    mode = parent.stat().st_mode
    if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
        raise BackupRefused(
            f"Other users can write to {parent} (mode {stat.S_IMODE(mode):04o}), and could replace "
            f"a backup there.\nHint: `chmod go-w {parent}`, or choose another folder."
        )


def _exists(destination: Path) -> BackupRefused:
    msg = f"{destination} exists, and a backup does not overwrite anything."
    return BackupRefused(f"{msg}\nHint: name a new folder, for example with the date.")


def _check_room(folder: Path, *, with_files: bool) -> None:
    needed = size() if with_files else dumps.database_nbytes()
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise BackupRefused(
            f"The backup may need {needed:,} bytes, and {folder} has {free:,} bytes free.\n"
            "Hint: choose another disk, or delete old backups."
        )


def _dump_database(writer: _Writer) -> dict[str, object]:
    """Dump the database; return the facts of the manifest, read from the same snapshot."""
    with dumps.snapshot() as snapshot_id:
        facts: dict[str, object] = {
            "identifier": dumps.project_identifier(),
            "postgresql": dumps.server_major(),
            "migrations": versions.applied_migrations(),
            "counts": dumps.row_counts(table._meta.db_table for table in COUNTED),
        }
        path = writer.folder / manifest.DUMP
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE)
        try:
            facts["pg_dump"] = dumps.dump(descriptor, snapshot_id)
        finally:
            os.close(descriptor)
    writer.add(manifest.DUMP, copies.sha256_of(path), path.stat().st_size)
    return facts


def _notices() -> Iterator[tuple[str, Path]]:
    for path in sorted(settings.VAR_DIR.iterdir()):
        if manifest.is_notice(path.name):
            yield f"{manifest.FILES}/{path.name}", path


class _Writer:
    """Writes the files of a backup, and the list of their hashes."""

    def __init__(self, folder: Path, advance: Callable[[int], None]) -> None:
        self.folder = folder
        self.skipped: list[str] = []
        self._copier = copies.Copier(advance=advance)
        self._files = self._nbytes = 0
        descriptor = os.open(folder / manifest.SUMS, os.O_WRONLY | os.O_CREAT, _PRIVATE_FILE)
        self._sums = os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape")

    def add(self, path: str, sha256: str, nbytes: int) -> None:
        self._sums.write(manifest.sum_line(sha256, path))
        self._files += 1
        self._nbytes += nbytes

    def copy_project(self, *, with_keys: bool, with_files: bool) -> None:
        """Copy the keys and the files of the project.

        Raises BackupRefused and `copies.Unreadable`.
        """
        if with_keys:
            self.copy_keys(copies.key_files(settings.KEYS_DIR))
        self.copy(copies.project_files(settings.VAR_DIR) if with_files else _notices())

    def copy(self, files: Iterable[tuple[str, Path]]) -> None:
        """Copy files; raises `copies.Unreadable`.

        Files that have just been replaced are skipped.  Links and special files are skipped, too,
        and listed in `skipped`.
        """
        for path, source in files:
            try:
                self._copy(path, source)
            except copies.NotRegular:
                self.skipped.append(str(source))
            except FileNotFoundError:
                continue

    def copy_keys(self, files: Iterable[tuple[str, Path]]) -> None:
        """Copy keys, of which none may be skipped; raises BackupRefused, `copies.Unreadable`."""
        for path, source in files:
            try:
                self._copy(path, source)
            except copies.NotRegular as error:
                raise BackupRefused(
                    f"{error} The backup would lack this key.\n"
                    "Hint: replace a link by a copy of its file; move everything else elsewhere."
                ) from None
            except FileNotFoundError:
                msg = f"{source} vanished during the backup."
                raise BackupRefused(f"{msg}\nHint: repeat the backup.") from None

    def _copy(self, path: str, source: Path) -> None:
        target = self.folder / path
        sha256 = self._copier.copy(source, target, mode=_PRIVATE_FILE)
        self.add(path, sha256, target.stat().st_size)

    def close(self) -> None:
        self._sums.close()

    def finish(
        self,
        described: dict[str, object],
        *,
        with_keys: bool,
        with_files: bool,
        created_at: datetime,
    ) -> Manifest:
        """Complete the list of hashes, and write the manifest."""
        self.close()
        store = settings.STORAGE
        written = Manifest(
            format=manifest.FORMAT,
            project=settings.PROJECT.name,
            master_url=settings.PROJECT.master_url,
            version=versions.version(),
            created_at=created_at.isoformat(),
            with_keys=with_keys,
            with_files=with_files,
            store=f"s3://{store.bucket}/{store.prefix}" if store else "",
            files=self._files,
            nbytes=self._nbytes,
            sums_sha256=copies.sha256_of(self.folder / manifest.SUMS),
            **described,  # type: ignore[arg-type]
        )
        path = self.folder / manifest.MANIFEST
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(written.text())
        return written


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
