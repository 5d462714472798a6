"""Opens the exported files that statistics sites read."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class StatisticsFile:
    """A file of the last export; `changed_at` is the Unix time of its last change."""

    name: str
    nbytes: int
    changed_at: float


def written_statistics() -> list[StatisticsFile]:
    """Return the existing statistics files, in the order of `STATISTICS_FILES`."""
    files = []
    for name in STATISTICS_FILES:
        try:
            status = (statistics_folder() / name).stat()
        except FileNotFoundError:
            continue
        files.append(StatisticsFile(name, status.st_size, status.st_mtime))
    return files
