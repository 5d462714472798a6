"""Removes repeated slashes from the paths of requests.

BOINC's `submit_api.py` sends such paths: it appends `/job_file.php` to the project's URL, which
ends in a slash.

This module uses no database, files or clock.
"""

from __future__ import annotations

import re
from typing import Final

_SLASHES: Final = re.compile(r"/{2,}")
#: Paths that begin with these contain the names of files, and are not changed.
_NAMES: Final = ("/download/", "/upload/")


def collapse_slashes(path: str) -> str:
    """Return a path without repeated slashes; `/download/` and `/upload/` paths are unchanged.

    >>> collapse_slashes("//job_file.php"), collapse_slashes("/api//v1///apps")
    ('/job_file.php', '/api/v1/apps')
    >>> collapse_slashes("//download/1a//x")
    '/download/1a//x'
    """
    if "//" not in path:
        return path
    if path.startswith("//"):
        path = f"/{path.lstrip('/')}"
    return path if path.startswith(_NAMES) else _SLASHES.sub("/", path)
