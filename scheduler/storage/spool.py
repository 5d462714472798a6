"""Spools: lines written once and read in order, on disk instead of in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from tempfile import TemporaryFile
from types import TracebackType
from typing import Final, Self

from django.conf import settings

#: Shorter spools are never written to the disk.
_BUFFER: Final = 1 << 18


class Spool:
    """A file without a name, which vanishes with its process; a context manager."""

    def __init__(self) -> None:
        """Open the file in VAR_DIR, whose disk has space."""
        folder = f"{settings.VAR_DIR}/spool"
        os.makedirs(folder, exist_ok=True)
        self._file = TemporaryFile(dir=folder, buffering=_BUFFER)  # noqa: SIM115  closed on exit

    def add(self, line: bytes) -> None:
        """Write a line, which must not contain a newline."""
        self._file.write(line)
        self._file.write(b"\n")

    def lines(self) -> Iterator[bytes]:
        """Yield all lines from the first on, with their newlines; may be called again."""
        self._file.seek(0)
        yield from self._file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
