"""Computes the disk space that uploads leave free for the database and logs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

#: The space for logs and other files of the project; bytes.
RESERVE_BYTES: Final = 100_000_000
#: `max_wal_size` of the embedded PostgreSQL, and PostgreSQL's default.
EMBEDDED_WAL_BYTES: Final = 2 << 30
WAL_BYTES: Final = 1 << 30
#: The data folder of PostgreSQL in the packages of Linux distributions.
SYSTEM_DATA: Final = Path("/var/lib/postgresql")


def default(var: Path, database: Mapping[str, Any]) -> int:
    """Return the default of MIN_FREE_BYTES, in bytes.

    `var` is VAR_DIR, and `database` contains Django's settings of the database.  If the database is
    on the same disk, the default includes space for its write-ahead log.
    """
    if database.get("EMBEDDED"):
        return RESERVE_BYTES + EMBEDDED_WAL_BYTES
    host = str(database.get("HOST", ""))
    is_here = not host or host.startswith("/") or host in {"localhost", "127.0.0.1", "::1"}
    if is_here and _device(SYSTEM_DATA) == _device(var):
        return RESERVE_BYTES + WAL_BYTES
    return RESERVE_BYTES


def _device(folder: Path) -> int | None:
    """Return the device number of a folder; None if it cannot be determined.

    For a folder that does not exist, this is the device of its nearest existing parent.
    """
    for path in (folder, *folder.parents):
        try:
            return path.stat().st_dev
        except OSError:
            continue
    return None
