"""Stages files for clients, and publishes each file under a permanent name.

The files are on the disk, or in the store of ``settings.STORAGE``.  While files are moved between
disk and store, a file may be in either, so readers look on the disk first.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from django.conf import settings

from scheduler.storage.deleting import delete_each, delete_with_digest
from scheduler.storage.digests import (
    Digest,
    Hashes,
    digest_of,
    hash_file,
    keep_digest,
    read_digest,
)
from scheduler.storage.disk import create, link, unlink, write_all
from scheduler.storage.names import fan_out, path_of
from scheduler.storage.remote import store
from scheduler.storage.syncing import sync

_CHUNK: Final = 1 << 20


class FileNameTaken(Exception):
    """Other content is already published under this name (PROTOCOL trap 4)."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Complete content without a public name, in memory or in a temporary file."""

    digest: Digest
    data: bytes = b""
    path: Path | None = None

    def open(self) -> BinaryIO:
        return io.BytesIO(self.data) if self.path is None else self.path.open("rb")


def stage_bytes(data: bytes) -> Staged:
    """Stage bytes in memory and hash them; ``publish`` writes them to the disk."""
    hashes = Hashes()
    hashes.update(data)
    return Staged(hashes.digest(), data)


def stage_file(source: str | os.PathLike[str] | BinaryIO) -> Staged:
    """Copy a file to a staged file for ``publish``, and hash the content.

    `source` is a path or an open binary file.
    """
    if isinstance(source, str | os.PathLike):
        with open(source, "rb") as file:
            return stage_file(file)
    # Staged files are spread over many folders, because ext4 creates a file near its folder, and
    # must skip each inode that was freed there in the last minutes (decision 14).
    token = secrets.token_hex(8)
    path = f"{settings.VAR_DIR}/download/{fan_out(token)}/.{os.getpid()}-{token}.staged"
    descriptor = create(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    hashes = Hashes()
    try:
        with open(descriptor, "wb", buffering=0) as staged:
            while chunk := source.read(_CHUNK):
                hashes.update(chunk)
                write_all(descriptor, chunk)
            digest = hashes.digest()
            with contextlib.suppress(OSError):  # the published file can be hashed again
                keep_digest(staged.fileno(), path, digest)
    except BaseException:
        unlink(path)
        raise
    return Staged(digest, path=Path(path))


def publish_all(contents: Mapping[str, Staged]) -> None:
    """Publish contents by name, on the disk or in the store; publish all or none.

    Files on the disk are synced.  Raises FileNameTaken if the files are on the disk, and
    `StoreAway` or `StoreError` if they are in the store.
    """
    away = store()
    if away is not None and away.config.writes:
        away.put_all({name: (staged.digest, staged.open) for name, staged in contents.items()})
        for staged in contents.values():
            discard(staged)
        return
    published: list[str] = []
    try:
        for name, staged in contents.items():
            publish(staged, name)
            published.append(name)
        sync_downloads(published)
    except BaseException:
        delete_downloads(published)
        raise


def publish(staged: Staged, name: str) -> None:
    """Give staged content its permanent public name on the disk, and remove the staged file.

    If the same content is already published under this name, this succeeds.  Raises FileNameTaken
    for other content, because clients keep the old file (PROTOCOL trap 4).
    """
    final = path_of("download", name)
    try:
        if staged.path is None:
            _write(final, staged)
        else:
            link(os.fspath(staged.path), final)
    except FileExistsError:
        existing = digest_of(final)
        if existing != staged.digest:
            raise FileNameTaken(
                f"File {name!r} is published with {existing.nbytes} bytes and MD5 "
                f"{existing.md5}, not {staged.digest.nbytes} bytes and {staged.digest.md5}.\n"
                "Hint: put a version or content hash in the name; names are never reused."
            ) from None
        os.utime(final)  # so that the file is not deleted as an orphan of an earlier submission
    discard(staged)


def _write(final: str, staged: Staged) -> None:
    """Write content under its public name, which clients receive only after the commit."""
    descriptor = create(final, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        write_all(descriptor, staged.data)
        with contextlib.suppress(OSError):  # the published file can be hashed again
            keep_digest(descriptor, final, staged.digest)
    except BaseException:
        unlink(final)
        raise
    finally:
        os.close(descriptor)


def discard(staged: Staged) -> None:
    """Delete a staged file if it exists."""
    if staged.path is not None:
        delete_with_digest(os.fspath(staged.path))


def open_download(name: str) -> tuple[BinaryIO, Digest | None]:
    """Open a published file on the disk; return the file, and its stored digest or None.

    Raises FileNotFoundError.
    """
    path = path_of("download", name)
    file = open(path, "rb", buffering=0)  # noqa: SIM115 - the caller closes it
    return file, read_digest(path, os.fstat(file.fileno()).st_size)


def sync_downloads(names: Iterable[str]) -> None:
    """Sync published files to the disk; call it once per batch, before the commit."""
    sync([path_of("download", name) for name in names], top=f"{settings.VAR_DIR}/download")


def delete_downloads(names: Iterable[str]) -> dict[str, str]:
    """Delete published files on the disk and in the store; return the error messages by name."""
    several = list(names)
    failures = delete_each(several, lambda name: delete_with_digest(path_of("download", name)))
    away = store()
    return failures if away is None else failures | away.delete(several)


def download_sizes(names: Iterable[str]) -> dict[str, int]:
    """Return the sizes in bytes of published files by name; missing files are omitted."""
    sizes: dict[str, int] = {}
    missing: list[str] = []
    for name in names:
        try:
            sizes[name] = os.stat(path_of("download", name)).st_size
        except FileNotFoundError:
            missing.append(name)
    away = store()
    return sizes if away is None or not missing else sizes | away.sizes(missing)


def download_start(name: str, nbytes: int) -> bytes:
    """Return the first `nbytes` bytes of a published file.

    Raises FileNotFoundError, `StoreAway`, `StoreError`.
    """
    try:
        with open(path_of("download", name), "rb") as file:
            return file.read(nbytes)
    except FileNotFoundError:
        if (away := store()) is None:
            raise
    stream, _, _ = away.open(name)
    with contextlib.closing(stream):
        start: bytes = stream.read(nbytes)
        return start


def download_digest(name: str) -> Digest:
    """Read a published file on the disk or in the store, and return its digest.

    Raises FileNotFoundError, `StoreAway`, `StoreError`.
    """
    try:
        with open(path_of("download", name), "rb") as file:
            return hash_file(file).digest()
    except FileNotFoundError:
        away = store()
        if away is None:
            raise
        return away.read_digest(name)
