"""Results that are kept: what the assimilator files away for the scientist."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from django.conf import settings

from scheduler.storage.disk import copy, create, replacing, sync
from scheduler.storage.names import check_name
from scheduler.storage.uploads import open_upload


def keep_result(*, upload_name: str, app: str, relative: str) -> Path:
    """Copy an upload to ``results/<app>/<relative>``, replacing what is there; return the path.

    Shares the blocks with the upload where the file system can. Not on the disk for good before
    ``sync_results``. Raises FileNotFoundError without the upload, BadFileName for the path.
    """
    target = _result_path(app, relative)
    with open_upload(upload_name) as source, replacing(target) as kept:
        copy(source, kept)
    return target


def write_result(*, app: str, relative: str, data: bytes) -> Path:
    """Write bytes to ``results/<app>/<relative>``, replacing what is there; return the path."""
    target = _result_path(app, relative)
    with replacing(target) as file:
        file.write(data)
    return target


def change_result(*, app: str, relative: str, change: Callable[[bytes], bytes]) -> Path:
    """Replace a result by what `change` makes of its bytes (none if it is new); return the path.

    One change at a time, whichever process asks; a reader sees the old file or the new one, and so
    does a power cut: the new one is on the disk before it takes the name.
    """
    target = _result_path(app, relative)
    lock = create(f"{target.parent}/.{target.name}.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            before = target.read_bytes()
        except FileNotFoundError:
            before = b""
        with replacing(target) as file:
            file.write(change(before))
            file.flush()
            os.fsync(file.fileno())
    finally:
        os.close(lock)
    return target


def sync_results(paths: Iterable[Path]) -> None:
    """Put results on the disk for good, files and folders: once per batch, before its commit."""
    sync(map(os.fspath, paths), top=f"{settings.VAR_DIR}/results")


def _result_path(app: str, relative: str) -> Path:
    for part in (app, *relative.split("/")):
        check_name(part)
    return Path(settings.VAR_DIR, "results", app, relative)
