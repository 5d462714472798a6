"""Permissions of the project's files: no access for other users of the machine.

New files get theirs by the umask that every process sets when it reads the settings; `serve`
corrects those of earlier versions. The group may read, for a proxy that serves downloads. Keys and
passwords are their owner's alone.
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
    """Set this process's umask, unless its starter chose a stricter one."""
    os.umask(os.umask(0o777) | umask)


def correct_modes(var: Path, keys: Path, *, umask: int) -> list[Path]:
    """Remove the permissions in `umask` from existing files; return the changed ones.

    Changed are VAR_DIR and what is directly in it (nothing below can be reached past these), and
    everything in the folder of keys. Links and what belongs to another user, such as PostgreSQL's
    data, stay as they are.
    """
    changed = []
    for path, forbidden in _wanted(var, keys, umask):
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode) or status.st_uid != var.stat().st_uid:
            continue
        mode = stat.S_IMODE(status.st_mode)
        if mode & forbidden:
            path.chmod(mode & ~forbidden)
            changed.append(path)
    return changed


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
