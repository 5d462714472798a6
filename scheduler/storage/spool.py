"""Spools: lines that are written once and read in order, beside the memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from tempfile import TemporaryFile
from types import TracebackType
from typing import Final, Self

from django.conf import settings

#: Shorter ones are never seen by the disk.
_BUFFER: Final = 1 << 18


class Spool:
    """A file without a name: whoever ends, however, leaves none behind.  A context manager."""

    def __init__(self) -> None:
        """Open it beside the project's other files, where there is room."""
        folder = f"{settings.VAR_DIR}/spool"
        os.makedirs(folder, exist_ok=True)
        self._file = TemporaryFile(dir=folder, buffering=_BUFFER)  # noqa: SIM115  closed on exit

    def add(self, line: bytes) -> None:
        """Write a line; it contains no line's end."""
        self._file.write(line)
        self._file.write(b"\n")

    def lines(self) -> Iterator[bytes]:
        """Read all lines from the first on; may be asked again."""
        self._file.seek(0)
        yield from self._file

    def __enter__(self) -> Self:
        """Nothing is written yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Forget it."""
        self._file.close()
