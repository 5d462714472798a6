"""Finds and deletes files that have not changed for a long time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Final

from django.conf import settings

from scheduler.storage.deleting import delete_with_digest
from scheduler.storage.remote import store
from scheduler.storage.uploads import UploadLocked, delete_partial

#: The prefix of `OldFile.path` for files in the store.
_IN_STORE: Final = "store:"


@dataclass(frozen=True, slots=True)
class OldFile:
    """A file that was last changed before a given time; `name` is its public name.

    `path` is its path on the disk, or ``store:`` and its key; `changed_at` is a Unix time.
    """

    name: str
    path: str
    nbytes: int
    changed_at: float


def old_uploads(*, before: datetime, at_once: int = 1000) -> Iterator[list[OldFile]]:
    """Yield complete and partial uploads that were last changed before a time.

    A list has at most `at_once` files, so that millions of files need little memory.
    """
    return _old_files("upload", before.timestamp(), at_once)


def old_downloads(*, before: datetime, at_once: int = 1000) -> Iterator[list[OldFile]]:
    """Yield published and staged files that were last changed before a time.

    Files in the store come last.  Raises `StoreAway` and `StoreError`.
    """
    yield from _old_files("download", before.timestamp(), at_once)
    away = store()
    if away is not None:
        for page in away.walk():
            old_files = [
                OldFile(file.name, f"{_IN_STORE}{file.key}", file.nbytes, file.changed_at)
                for file in page
                if file.changed_at < before.timestamp()
            ]
            if old_files:
                yield old_files


def delete_old_files(files: Iterable[OldFile]) -> list[OldFile]:
    """Delete files that were not changed since they were listed; return the deleted files.

    Files in the store never change, so they are not checked.  Files that cannot be deleted, or that
    a request writes, are left out of the return value.
    """
    gone, in_store = [], []
    for file in files:
        if file.path.startswith(_IN_STORE):
            in_store.append(file)
            continue
        with contextlib.suppress(OSError, UploadLocked):
            if os.stat(file.path).st_mtime != file.changed_at:
                continue
            if file.path.endswith(".part"):
                delete_partial(file.path)
            else:
                delete_with_digest(file.path)
            gone.append(file)
    away = store() if in_store else None
    if away is not None:
        kept = away.delete(file.name for file in in_store)
        gone += [file for file in in_store if file.name not in kept]
    return gone


def _old_files(hierarchy: str, before: float, at_once: int) -> Iterator[list[OldFile]]:
    folders = _folders(f"{settings.VAR_DIR}/{hierarchy}")
    old_files = (file for folder in folders for file in _old_files_in(folder, before))
    while some := list(islice(old_files, at_once)):
        yield some


def _old_files_in(folder: str, before: float) -> Iterator[OldFile]:
    with os.scandir(folder) as entries:
        yield from filter(None, (_old_file(entry, before) for entry in entries))


def _folders(top: str) -> list[str]:
    try:
        with os.scandir(top) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


def _old_file(entry: os.DirEntry[str], before: float) -> OldFile | None:
    name = entry.name
    try:
        if not entry.is_file(follow_symlinks=False):
            return None
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    if status.st_mtime >= before:
        return None
    if name.startswith("."):
        name = name[1:].rpartition(".")[0]
        # A digest file is deleted with its file, so it is listed only if its file does not exist.
        if entry.name.endswith(".digest") and os.path.exists(
            f"{os.path.dirname(entry.path)}/{name}"
        ):
            return None
    return OldFile(name, entry.path, status.st_size, status.st_mtime)
