"""Returns the launcher, a shell script that runs scripts, commands and containers."""

from __future__ import annotations

from functools import cache
from pathlib import Path

#: The name by which the launcher opens the archive of a program.
ARCHIVE_NAME = "_launcher.tar.gz"


def launcher(*, kind: str, image: str = "") -> bytes:
    """Return the launcher, which is the main program of the versions of an app of this kind.

    `image` is the image of a container app, and empty for other kinds.
    """
    return _template().replace(b"@KIND@", kind.encode()).replace(b"@IMAGE@", image.encode())


@cache
def _template() -> bytes:
    return Path(__file__).with_name("launcher.sh").read_bytes()
