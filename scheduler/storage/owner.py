"""Records the project that owns VAR_DIR, and checks that its folders can be used."""

from __future__ import annotations

import os
import tempfile
from typing import Final

from django.conf import settings

OWNER_FILE: Final = "project-id"
#: The file of VAR_DIR that exists while a restore is not complete.
INCOMPLETE_RESTORE: Final = "restore.incomplete"
#: The folders of VAR_DIR in which processes create and delete files.
_FOLDERS: Final = (
    "",
    "archive",
    "download",
    "results",
    "run",
    "spool",
    "stats",
    "templates",
    "upload",
    "workshop",
)


def record_owner(identifier: str) -> str:
    """Return the recorded identifier of VAR_DIR.

    If no identifier is recorded, this records and returns `identifier`.
    """
    path = settings.VAR_DIR / OWNER_FILE
    recorded: str = path.read_text().strip() if path.exists() else ""
    if recorded:
        return recorded
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(f"{identifier}\n")
    new.replace(path)
    return identifier


def unusable_folders() -> list[str]:
    """Return the existing folders that this process cannot read or write, with the reason.

    A temporary file is created in VAR_DIR, because a read-only file system and a quota do not show
    in the modes.
    """
    var = os.fspath(settings.VAR_DIR)
    if not os.path.isdir(var):
        return [f"{var} (does not exist)"]
    needed = os.R_OK | os.W_OK | os.X_OK
    paths = [os.path.join(var, name) for name in _FOLDERS]
    unusable = [path for path in paths if os.path.isdir(path) and not os.access(path, needed)]
    try:
        with tempfile.TemporaryFile(dir=var) as file:
            file.write(b"doctor")
            file.flush()
    except OSError as error:
        unusable.append(f"{var} ({error.strerror})")
    return [path.rstrip("/") for path in unusable]
