"""Checks a backup and its target before a restore writes anything."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from django.conf import settings

from project.upkeep import copies, dumps, manifest, processes, versions
from project.upkeep.manifest import BadBackup, Manifest
from scheduler import storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

#: The keys that every command creates if they are missing, so that a new VAR_DIR has them.
NEW_KEYS: Final = frozenset(
    {
        "account_seal_key",
        "code_sign_private",
        "code_sign_public",
        "ownership_private",
        "ownership_public",
        "secret_key",
        "upload_grant_keys",
    }
)


class RestoreRefused(Exception):
    """The backup cannot be restored here; the text contains a hint."""


def check(source: Path, advance: Callable[[int], None], *, now: datetime) -> Manifest:
    """Return the manifest of a backup that can be restored here; nothing is written.

    `advance` is called with the number of bytes that were read.  Raises BadBackup, RestoreRefused,
    `copies.Unreadable` and `dumps.DumpFailed`.
    """
    described = read_manifest(source)
    _check_versions(described)
    _check_target(source, described, now)
    _verify(source, described, advance)
    return described


def read_manifest(source: Path) -> Manifest:
    """Return the manifest of a backup in a folder that only its owner can change.

    Raises BadBackup, RestoreRefused and `copies.Unreadable`.
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
    _check_tree(source)
    return manifest.read(path.read_text(encoding="utf-8"))


def _check_tree(source: Path) -> None:
    """Raise an exception unless the backup has only files and folders that others cannot change."""
    owners = {0, os.geteuid(), settings.VAR_DIR.stat().st_uid}

    def fail(error: OSError) -> None:
        raise copies.Unreadable(error.filename, error)

    _check_entry(source, owners)
    for folder, folders, names in os.walk(source, onerror=fail):
        for name in (*folders, *names):
            _check_entry(Path(folder, name), owners)


def _check_entry(path: Path, owners: set[int]) -> None:
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
        msg = f"{path} is a symbolic link or a special file, which no backup contains."
        raise BadBackup(f"{msg}\nHint: the backup was changed; use another one.")
    if status.st_uid not in owners:
        msg = f"{path} belongs to another user ({status.st_uid}), who could change it meanwhile."
        raise RestoreRefused(f"{msg}\nHint: copy the backup to a folder of your own.")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        msg = f"Other users can change {path} (mode {stat.S_IMODE(status.st_mode):04o})."
        raise RestoreRefused(
            f"{msg}\nHint: make sure that it was not changed, then `chmod -R go-w` the backup."
        )


def _check_versions(described: Manifest) -> None:
    if unknown := versions.unknown_migrations(described.migrations):
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
    dumps.find_restorer(described.pg_dump)


def _check_target(source: Path, described: Manifest, now: datetime) -> None:
    var: Path = settings.VAR_DIR
    if running := processes.running(now=now):
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
    if (identifier := owner(var)) not in ("", described.identifier):
        raise RestoreRefused(
            f"{var} holds the files of another project ({identifier}), not of the project in the "
            f"backup ({described.identifier}).\nHint: set VAR_DIR to the folder of that project."
        )
    _check_places(source, described)
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


def _check_places(source: Path, described: Manifest) -> None:
    """Raise RestoreRefused if a folder or a small file of VAR_DIR cannot be put into its place."""
    var: Path = settings.VAR_DIR
    trees = manifest.TREES if described.with_files else ()
    for name in (*trees, *([manifest.KEYS] if described.with_keys else [])):
        place = var / name
        if place.is_symlink() or (place.exists() and place.stat().st_dev != var.stat().st_dev):
            raise RestoreRefused(
                f"{place} is a link or another file system, into which a restore cannot move "
                "files.\nHint: remove the link, or unmount it; after the restore, move the folder "
                "there."
            )
    if described.with_files:
        return
    for copied in sorted((source / manifest.FILES).glob("*")):
        place = var / copied.name
        is_other = copied.name != storage.OWNER_FILE and place.exists()
        if is_other and copied.read_bytes() != place.read_bytes():
            raise RestoreRefused(
                f"{place} differs from the file in the backup.\nHint: a restore does not overwrite "
                "anything; move this file elsewhere."
            )


def _occupied(var: Path) -> Iterator[str]:
    """Yield the names of files in VAR_DIR that a restore would have to overwrite."""
    for path in var.iterdir():
        in_tree = path.name in manifest.TREES and any(files for _, _, files in os.walk(path))
        if in_tree or manifest.is_notice(path.name):
            yield path.name
    for name, path in copies.key_files(settings.KEYS_DIR):
        if path.name not in NEW_KEYS:
            yield name


def owner(var: Path) -> str:
    """Return the identifier of the project that used VAR_DIR, or an empty string."""
    try:
        return (var / storage.OWNER_FILE).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def _verify(source: Path, described: Manifest, advance: Callable[[int], None]) -> None:
    """Raise BadBackup unless the backup contains exactly the listed files, unchanged."""
    if copies.sha256_of(source / manifest.SUMS) != described.sums_sha256:
        raise changed(manifest.SUMS)
    count = 0
    for sha256, path in sums(source):
        count += 1
        try:
            actual_sha256 = copies.sha256_of(source / path, advance)
        except FileNotFoundError:
            msg = f"{path} is missing in the backup."
            raise BadBackup(f"{msg}\nHint: use another backup.") from None
        if actual_sha256 != sha256:
            raise changed(path)
    existing = sum(len(names) for _, _, names in os.walk(source)) - 2
    if not count == existing == described.files:
        raise BadBackup(
            f"The backup has {existing} files, its list has {count}, and its manifest "
            f"{described.files}.\nHint: the backup was changed; use another one."
        )


def sums(source: Path) -> Iterator[tuple[str, str]]:
    with (source / manifest.SUMS).open(
        encoding="utf-8", errors="surrogateescape", newline="\n"
    ) as lines:
        yield from manifest.read_sums(lines)


def changed(path: str) -> BadBackup:
    msg = f"{path} has not the hash that the backup lists: it was changed, or the disk is damaged."
    return BadBackup(f"{msg}\nHint: use another backup.")
