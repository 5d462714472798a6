"""Stores the outputs that the assimilator keeps for the scientist."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from django.conf import settings

from scheduler.storage.digests import Digest, hash_file
from scheduler.storage.disk import NO_LINKS, copy, create, open_regular, replacing
from scheduler.storage.names import check_name, path_of
from scheduler.storage.syncing import sync
from scheduler.storage.uploads import open_upload


def keep_result(*, upload_name: str, app: str, relative: str) -> str:
    """Keep an upload as ``results/<app>/<relative>``, replacing an older file; return the path.

    The path is text, because assimilators keep thousands of files.  The result is a hard link to
    the finished upload, which never changes, or a copy if the file system does not support links.
    The result is durable only after ``sync_results``.  Raises FileNotFoundError for a missing
    upload, and BadFileName for an invalid name.
    """
    target = _result_path(app, relative)
    source = path_of("upload", upload_name)
    try:
        _link_over(source, target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        with open_upload(upload_name) as upload, replacing(Path(target)) as kept:
            copy(upload, kept)
    return target


def _link_over(source: str, target: str) -> None:
    folder = os.path.dirname(target)
    try:
        os.mkdir(folder)
    except FileExistsError:
        pass
    except FileNotFoundError:
        os.makedirs(folder, exist_ok=True)
    try:
        os.link(source, target)
    except FileExistsError:
        if not os.path.samefile(source, target):
            temporary = f"{folder}/.{secrets.token_hex(8)}.part"
            os.link(source, temporary)
            os.rename(temporary, target)


def write_result(*, app: str, relative: str, data: bytes) -> Path:
    """Write bytes to ``results/<app>/<relative>``, replacing an older file; return the path."""
    target = Path(_result_path(app, relative))
    with replacing(target) as file:
        file.write(data)
    return target


def change_result(*, app: str, relative: str, change: Callable[[bytes], bytes]) -> Path:
    """Replace the bytes of a result by the return value of `change`; return the path.

    `change` gets the old bytes, or b"" if the result does not exist.  A lock makes the changes of
    all processes sequential.  Readers see the old or the new file, also after a power failure,
    because the new file is synced before it is renamed.
    """
    target = Path(_result_path(app, relative))
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


def result_digest(*, app: str, relative: str) -> Digest:
    """Read ``results/<app>/<relative>`` and return its digest.

    Plug-ins may be allowed to write there, so that links are not followed.  Raises
    FileNotFoundError, and NotRegularFile for a link, a folder or a special file.
    """
    with _open_result(app, relative) as file:
        return hash_file(file).digest()


def result_exists(*, app: str, relative: str) -> bool:
    """Return whether ``results/<app>/<relative>`` is a regular file.

    Raises NotRegularFile for a link, a folder or a special file.
    """
    try:
        _open_result(app, relative).close()
    except FileNotFoundError:
        return False
    return True


def _open_result(app: str, relative: str) -> BinaryIO:
    _result_path(app, relative)
    return open_regular(_top(), f"{app}/{relative}")


def sync_results(paths: Iterable[Path | str]) -> None:
    """Sync results and their folders to the disk; call it once per batch, before the commit."""
    sync([os.fspath(path) for path in paths], top=_top())


def _result_path(app: str, relative: str) -> str:
    for part in (app, *relative.split("/")):
        check_name(part)
    return f"{_top()}/{app}/{relative}"


def _top() -> str:
    return f"{settings.VAR_DIR}/results"
