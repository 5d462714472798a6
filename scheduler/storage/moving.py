"""Moves downloads between disk and store, and verifies each copy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path

from scheduler.storage.deleting import delete_with_digest
from scheduler.storage.digests import Digest, hash_file
from scheduler.storage.downloads import discard, publish, stage_file, sync_downloads
from scheduler.storage.names import path_of
from scheduler.storage.remote import Store


class Fate(Enum):
    """The outcome of moving one file."""

    MOVED = "moved"
    THERE = "there already"
    MISSING = "missing"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file's name, and its digest in the database."""

    name: str
    digest: Digest


def to_store(store: Store, files: Sequence[Wanted], *, dry_run: bool = False) -> list[Fate]:
    """Move files from the disk to the store; return the outcome for each file, in order.

    A file whose content differs from its digest is not moved.  If `dry_run` is True, no file is
    moved, and contents are not compared.  Raises `StoreAway` and `StoreError`; files that were
    moved before the error stay in the store.
    """
    return store.each(lambda file: _to_store(store, file, dry_run=dry_run), files)


def _to_store(store: Store, file: Wanted, *, dry_run: bool) -> Fate:
    path = path_of("download", file.name)
    try:
        with open(path, "rb") as opened:
            if dry_run:
                return Fate.MOVED
            if hash_file(opened).digest() != file.digest:
                return Fate.DAMAGED
    except FileNotFoundError:
        return _in_store(store, file)
    here = Path(path)
    store.put(file.name, file.digest, lambda: here.open("rb"))
    delete_with_digest(path)
    return Fate.MOVED


def _in_store(store: Store, file: Wanted) -> Fate:
    try:
        stored = store.look_up(file.name)
    except FileNotFoundError:
        return Fate.MISSING
    return Fate.THERE if stored.nbytes == file.digest.nbytes else Fate.DAMAGED


def to_disk(store: Store, files: Sequence[Wanted], *, dry_run: bool = False) -> list[Fate]:
    """Copy files from the store to the disk; return the outcome for each file, in order.

    Afterwards the files are served from the disk.  The copies in the store stay until
    `drop_copies` is called, because clients may have signed URLs of the copies.  Raises
    `StoreAway`, `StoreError`.
    """
    fates = store.each(lambda file: _to_disk(store, file, dry_run=dry_run), files)
    if not dry_run:
        moved = zip(files, fates, strict=True)
        sync_downloads([file.name for file, fate in moved if fate is Fate.MOVED])
    return fates


def _to_disk(store: Store, file: Wanted, *, dry_run: bool) -> Fate:
    if os.path.exists(path_of("download", file.name)):
        return Fate.THERE
    if dry_run:
        fate = _in_store(store, file)
        return Fate.MOVED if fate is Fate.THERE else fate
    try:
        stream, _, _ = store.open(file.name)
    except FileNotFoundError:
        return Fate.MISSING
    with stream:
        staged = stage_file(stream)
    if staged.digest != file.digest:
        discard(staged)
        return Fate.DAMAGED
    publish(staged, file.name)
    return Fate.MOVED


def drop_copies(store: Store, *, before: datetime, dry_run: bool = False) -> tuple[int, int]:
    """Delete the copies in the store of files that were on the disk before `before`.

    Returns the number of deleted copies, and the number of copies of files that came to the disk
    later.  If `dry_run` is True, the copies are counted but not deleted.  Raises `StoreAway`,
    `StoreError`.
    """
    dropped = waiting = 0
    for page in store.walk():
        old_names: list[str] = []
        for file in page:
            since = _on_disk_since(file.name)
            if since is not None and since < before.timestamp():
                old_names.append(file.name)
            elif since is not None:
                waiting += 1
        kept = {} if dry_run else store.delete(old_names)
        dropped += len(old_names) - len(kept)
    return dropped, waiting


def _on_disk_since(name: str) -> float | None:
    try:
        return os.stat(path_of("download", name)).st_ctime
    except FileNotFoundError:
        return None
