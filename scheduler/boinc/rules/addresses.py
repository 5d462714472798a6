"""Removes repeated slashes from the paths of requests [pure].

BOINC's `submit_api.py` sends such paths: it appends `/job_file.php` to the project's URL, which
ends in a slash.
"""

from __future__ import annotations

import re
from typing import Final

_SLASHES: Final = re.compile(r"/{2,}")
#: Paths below these name files and are not changed.
_NAMES: Final = ("/download/", "/upload/")


def collapse_slashes(path: str) -> str:
    """Return a request's path with single slashes; below `/download/` and `/upload/` unchanged.

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
