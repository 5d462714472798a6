"""Restores a backup into an empty database and an empty VAR_DIR.

Everything is checked before anything is written: the owner and the modes of the backup, the
versions, the hash of each file, the target.  The files are copied to a temporary folder of VAR_DIR,
the database is loaded in one transaction, and only then are the files moved to their places.  So a
failed restore leaves an empty database and no files.

Clients have gone on since the backup.  Results that were sent later are unknown to the restored
database: clients get the order to abort them, and reports of them are acknowledged and ignored.
Results that clients reported later are sent again as lost results.  Ids that were given later must
not be given again, because clients, accounts and file names still use them: the sequences of
`SKIPPED_IDS` skip a range.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader

from project.upkeep import copies, dumps, manifest, processes
from project.upkeep.manifest import BadBackup, Manifest
from scheduler.models.audit import AuditEntry
from scheduler.people import audit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

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
#: The keys that every command creates if they are missing, so that a new VAR_DIR has them.
_NEW_KEYS: Final = frozenset(
    {
        "account_seal_key",
        "code_sign_private",
        "code_sign_public",
        "secret_key",
        "upload_grant_keys",
    }
)
_SKIP = """\
SELECT setval(sequence, nextval(sequence) + %s) FROM pg_get_serial_sequence(%s, 'id') AS sequence
"""


class RestoreRefused(Exception):
    """The backup cannot be restored here; the text contains a hint."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A restored backup, and the migrations that were applied to it afterwards."""

    manifest: Manifest
    migrated: list[str]


def read_manifest(source: Path) -> Manifest:
    """Return the manifest of a backup in a folder that only its owner can change.

    Raises BadBackup and RestoreRefused.
    """
    path = source / manifest.MANIFEST
    try:
        status = source.lstat()
        path.lstat()
    except OSError:
        msg = f"{source} is not a backup: it has no {manifest.MANIFEST}."
        raise RestoreRefused(
            f"{msg}\nHint: name the folder that `project backup` created."
        ) from None
    if not stat.S_ISDIR(status.st_mode):
        msg = f"{source} is not a folder."
        raise RestoreRefused(f"{msg}\nHint: name the folder itself, not a link to it.")
    if status.st_uid not in {0, os.geteuid(), settings.VAR_DIR.stat().st_uid}:
        msg = f"{source} belongs to another user ({status.st_uid}), who could change it meanwhile."
        raise RestoreRefused(f"{msg}\nHint: copy it to a folder of your own.")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        msg = f"Other users can change {source} (mode {stat.S_IMODE(status.st_mode):04o})."
        raise RestoreRefused(f"{msg}\nHint: make sure that nobody did, then `chmod go-w {source}`.")
    _check_tree(source)
    return manifest.read(path.read_text(encoding="utf-8"))


def restore(
    source: Path, *, advance: Callable[[int], None] = lambda _nbytes: None, now: datetime
) -> Restored:
    """Restore a backup, and apply the migrations that it lacks.

    `advance` is called with the number of bytes that were read, of twice `Manifest.nbytes`.  Raises
    BadBackup, RestoreRefused and `dumps.DumpFailed`; then nothing has changed.
    """
    source = source.absolute()
    described = read_manifest(source)
    _check_versions(described)
    _check_target(described)
    _verify(source, described, advance)
    var: Path = settings.VAR_DIR
    draft = var / _DRAFT
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=_PRIVATE_FOLDER)
    try:
        _copy(source, draft, advance)
        dumps.load(source / manifest.DUMP, pg_dump=described.pg_dump)
        _move(draft, var, with_keys=described.with_keys)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    _skip_ids()
    migrated = missing_migrations()
    call_command("migrate", interactive=False, verbosity=0, stdout=StringIO())
    with transaction.atomic():
        details = {"created_at": described.created_at, "version": described.version}
        event = AuditEntry.Event.BACKUP_RESTORED
        audit.record(event, subject=str(source), details=details, now=now)
    return Restored(described, migrated)


def missing_migrations() -> list[str]:
    """Return the migrations of this version that are not applied, as ``app.name``."""
    loader = MigrationLoader(connection)
    missing = set(loader.disk_migrations or ()) - set(loader.applied_migrations or ())
    return sorted(f"{app}.{name}" for app, name in missing)


def unknown_migrations(applied: list[str]) -> list[str]:
    """Return those of the `applied` migrations that this version does not have."""
    existing = MigrationLoader(None).disk_migrations or {}
    known_migrations = {
        *existing,
        *(old for migration in existing.values() for old in migration.replaces),
    }
    apps = {app for app, _ in known_migrations}
    names = {f"{app}.{name}" for app, name in known_migrations}
    return sorted(name for name in set(applied) - names if name.partition(".")[0] in apps)


# Checks, before anything is written


def _check_tree(source: Path) -> None:
    """Raise BadBackup if the backup contains a symbolic link or a special file."""
    for folder, folders, names in os.walk(source):
        for name in (*folders, *names):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
                msg = f"{path} is a symbolic link or a special file, which no backup contains."
                raise BadBackup(f"{msg}\nHint: somebody changed the backup; use another one.")


def _check_versions(described: Manifest) -> None:
    if unknown := unknown_migrations(described.migrations):
        raise RestoreRefused(
            f"The backup is of a newer version ({described.version}): this version lacks the "
            f"migration {unknown[0]}.\nHint: install the version that made the backup."
        )
    major = dumps.server_major()
    if major < described.postgresql:
        raise RestoreRefused(
            f"The backup is of PostgreSQL {described.postgresql}, and the server here is "
            f"PostgreSQL {major}.\nHint: set DATABASE_URL to a server of version "
            f"{described.postgresql} or later."
        )


def _check_target(described: Manifest) -> None:
    var: Path = settings.VAR_DIR
    if running := processes.running():
        msg = f"{running[0]} uses {var}."
        raise RestoreRefused(f"{msg}\nHint: stop the project first.")
    if count := dumps.count_objects():
        raise RestoreRefused(
            f"The database is not empty: it has {count} tables and views.\n"
            "Hint: a restore does not overwrite anything; use a new VAR_DIR, or an empty database "
            "as DATABASE_URL."
        )
    if described.with_files and (occupied := sorted(_occupied(var))):
        raise RestoreRefused(
            f"{var} is not empty: it contains {occupied[0]}.\n"
            "Hint: a restore does not overwrite anything; set VAR_DIR to a new folder."
        )
    if (owner := _owner(var)) not in ("", described.identifier):
        raise RestoreRefused(
            f"{var} holds the files of another project ({owner}), not of the project in the backup "
            f"({described.identifier}).\nHint: set VAR_DIR to the folder of that project."
        )
    if not described.with_keys and not (settings.KEYS_DIR / "upload_grant_keys").exists():
        raise RestoreRefused(
            f"The backup was made without keys, and {settings.KEYS_DIR} has none either.\n"
            f"Hint: copy the saved keys to {settings.KEYS_DIR} first."
        )
    free = shutil.disk_usage(var).free
    if described.nbytes > free:
        raise RestoreRefused(
            f"The backup has {described.nbytes:,} bytes, and {var} has {free:,} bytes free.\n"
            "Hint: set VAR_DIR to a folder on a larger disk."
        )


def _occupied(var: Path) -> Iterator[str]:
    """Yield the names of files in VAR_DIR that a restore would have to overwrite."""
    for path in var.iterdir():
        in_tree = path.name in manifest.TREES and any(files for _, _, files in os.walk(path))
        if in_tree or manifest.is_notice(path.name):
            yield path.name
    for name, path in copies.key_files(settings.KEYS_DIR):
        if path.name not in _NEW_KEYS:
            yield name


def _owner(var: Path) -> str:
    """Return the identifier of the project that used VAR_DIR, or an empty string."""
    try:
        return (var / manifest.OWNER_FILE).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def _verify(source: Path, described: Manifest, advance: Callable[[int], None]) -> None:
    """Raise BadBackup unless the backup contains exactly the listed files, unchanged."""
    if copies.sha256_of(source / manifest.SUMS) != described.sums_sha256:
        raise _changed(manifest.SUMS)
    count = 0
    for sha256, path in _sums(source):
        count += 1
        try:
            actual_sha256 = copies.sha256_of(source / path, advance)
        except FileNotFoundError:
            msg = f"{path} is missing in the backup."
            raise BadBackup(f"{msg}\nHint: use another backup.") from None
        if actual_sha256 != sha256:
            raise _changed(path)
    existing = sum(len(names) for _, _, names in os.walk(source)) - 2
    if not count == existing == described.files:
        raise BadBackup(
            f"The backup has {existing} files, its list has {count}, and its manifest "
            f"{described.files}.\nHint: somebody changed the backup; use another one."
        )


def _sums(source: Path) -> Iterator[tuple[str, str]]:
    with (source / manifest.SUMS).open(
        encoding="utf-8", errors="surrogateescape", newline="\n"
    ) as lines:
        yield from manifest.read_sums(lines)


def _changed(path: str) -> BadBackup:
    msg = f"{path} has not the hash that the backup lists: it was changed, or the disk is damaged."
    return BadBackup(f"{msg}\nHint: use another backup.")


# Writing


def _copy(source: Path, draft: Path, advance: Callable[[int], None]) -> None:
    """Copy keys and files to the temporary folder, and verify them again."""
    owner = settings.VAR_DIR.stat()
    copier = copies.Copier(
        owner=(owner.st_uid, owner.st_gid) if not os.geteuid() else None, advance=advance
    )
    for sha256, path in _sums(source):
        if path == manifest.DUMP:
            continue
        is_key = path.startswith(f"{manifest.KEYS}/")
        mode = _PRIVATE_FILE if is_key else 0o666 & ~settings.FILE_UMASK
        if copier.copy(source / path, draft / path, mode=mode) != sha256:
            raise _changed(path)
    os.sync()


def _move(draft: Path, var: Path, *, with_keys: bool) -> None:
    """Move the copies to their places, and remove other keys that this process may have created.

    In a VAR_DIR that the project used before, these keys are moved to a folder instead.
    """
    keys: Path = settings.KEYS_DIR
    is_used = bool(_owner(var))
    for name in sorted(_NEW_KEYS) if with_keys else ():
        _remove_key(keys / name, draft / manifest.KEYS / name, is_used=is_used)
    for part, target in ((manifest.FILES, var), (manifest.KEYS, keys)):
        for path in sorted((draft / part).iterdir()) if (draft / part).is_dir() else ():
            if path.is_dir() and (target / path.name).is_dir():
                shutil.rmtree(target / path.name)  # a tree of empty folders
            path.replace(target / path.name)


def _remove_key(key: Path, copied: Path, *, is_used: bool) -> None:
    if not key.exists() or (copied.exists() and key.read_bytes() == copied.read_bytes()):
        return
    if is_used:
        (key.parent / copies.REPLACED_KEYS).mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
        key.rename(key.parent / copies.REPLACED_KEYS / key.name)
    else:
        key.unlink()


def _skip_ids() -> None:
    with connection.cursor() as cursor:
        for table, ids in SKIPPED_IDS.items():
            cursor.execute(_SKIP, [ids, table])
