"""Sets and corrects the permissions of the project's files.

Every process sets the umask FILE_UMASK when it reads the settings. `serve` corrects the modes of
existing files. With the default umask, other users have no access, and the group may read files, so
that a proxy can serve downloads. Only the owner can read keys and passwords.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PRIVATE = 0o077


def restrict_new_files(umask: int) -> None:
    """Add `umask` to this process's umask, which may be stricter."""
    os.umask(os.umask(0o777) | umask)


def correct_modes(var: Path, keys: Path, *, umask: int) -> list[Path]:
    """Remove permissions from existing files; return the paths of the changed files.

    VAR_DIR and its direct entries lose the permissions in `umask`, and so protect everything below
    them. The folder `keys` and all its entries lose the permissions of the group and of others.
    Links are not changed, nor files of another user, such as PostgreSQL's data.
    """
    changed = []
    for path, forbidden in _too_open(var, keys, umask):
        path.chmod(stat.S_IMODE(path.lstat().st_mode) & ~forbidden)
        changed.append(path)
    return changed


def open_paths(var: Path, keys: Path, *, umask: int) -> list[Path]:
    """Return the paths whose modes `correct_modes` would change."""
    return [path for path, _ in _too_open(var, keys, umask)]


def _too_open(var: Path, keys: Path, umask: int) -> Iterator[tuple[Path, int]]:
    for path, forbidden in _wanted(var, keys, umask):
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode) or status.st_uid != var.stat().st_uid:
            continue
        if stat.S_IMODE(status.st_mode) & forbidden:
            yield path, forbidden


def _wanted(var: Path, keys: Path, umask: int) -> Iterator[tuple[Path, int]]:
    if not var.is_dir():
        return
    yield var, umask
    for path in sorted(var.iterdir()):
        if path != keys:
            yield path, umask
    if keys.is_dir():
        yield keys, PRIVATE
        for path in sorted(keys.rglob("*")):
            yield path, PRIVATE
