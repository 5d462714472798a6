"""Opens the exported files that statistics sites read."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Final

from django.conf import settings

#: The files, in the order in which they are listed.
STATISTICS_FILES: Final = (
    "tables.xml",
    "user.gz",
    "team.gz",
    "host.gz",
    "user_deleted.gz",
    "host_deleted.gz",
    "badge_user.gz",
    "badge_team.gz",
)


def statistics_folder() -> Path:
    """Return the folder with the files of the daily export, which `/stats/` serves."""
    return Path(settings.VAR_DIR) / "stats"


def open_statistics(name: str) -> tuple[BinaryIO, float]:
    """Open one of `STATISTICS_FILES`; return the file and the Unix time of its last change.

    Raises FileNotFoundError for a file that was never written, and for other names.
    """
    if name not in STATISTICS_FILES:
        raise FileNotFoundError(name)
    path = statistics_folder() / name
    file = path.open("rb")
    return file, path.stat().st_mtime


def written_statistics() -> list[str]:
    """Return the names of the existing statistics files."""
    folder = statistics_folder()
    return [name for name in STATISTICS_FILES if (folder / name).is_file()]
