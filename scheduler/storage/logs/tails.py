"""Reads the last lines of the log files that the project writes.

The files are those of a fixed list, so that no caller can name another one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from django.conf import settings

#: The number of bytes that are read from the end of a file, and of lines that are returned.
MAX_BYTES: Final = 1_000_000
MAX_LINES: Final = 1_000
#: The maximum number of characters of a line that are returned.
MAX_LINE: Final = 2_000


@dataclass(frozen=True, slots=True)
class Tail:
    """The last lines of a log file.

    `lines` are those of the last `read_nbytes` of the `nbytes` of the file that contain the text;
    `matches` is the number of all such lines, of which the last ones are returned.
    """

    nbytes: int
    read_nbytes: int
    matches: int
    lines: tuple[str, ...]


def log_paths() -> Mapping[str, str]:
    """Return the paths of the log files by name; a file need not exist."""
    paths = {"postgres": os.path.join(settings.VAR_DIR, "postgres.log")}
    if settings.AUDIT_LOG is not None:
        paths["audit"] = str(settings.AUDIT_LOG)
    return paths


def read(name: str, *, lines: int = MAX_LINES, text: str = "") -> Tail:
    """Return the last lines of a log file that contain `text`, without regard to case.

    Raises `KeyError` for an unknown name, and `OSError` if the file is missing or unreadable.
    """
    # Without O_NONBLOCK, opening a pipe would wait for its writer.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(log_paths()[name], flags), "rb") as file:
        nbytes = os.fstat(file.fileno()).st_size
        start = max(0, nbytes - MAX_BYTES)
        file.seek(start)
        content = file.read(MAX_BYTES)
    whole = content.decode("utf-8", "replace").split("\n")
    if whole and not whole[-1]:
        whole.pop()
    if start:
        del whole[:1]  # its beginning was not read
    wanted = text.casefold()
    matching = [line for line in whole if wanted in line.casefold()]
    last = matching[-max(1, min(lines, MAX_LINES)) :]
    return Tail(nbytes, len(content), len(matching), tuple(line[:MAX_LINE] for line in last))
