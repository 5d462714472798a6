"""Compares files with their rows: what is there, how long it is, what is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import QuerySet, Sum

from scheduler import sql, storage
from scheduler.lifecycle import FileDeleteState
from scheduler.models import AppVersionFile, File, FileHold, FileRequest, ResultFile, WorkunitFile

BATCH: Final = 1000
#: A submission puts its files in their places and then commits; it never takes so long.
_UNDER_WAY: Final = timedelta(days=1)

RESTORE: Final = (
    "Hint: restore them by these names from what you saved; what nobody has saved fails the "
    "workunits that need it: cancel them and submit them again (`manage.py cancel_work`)."
)


@dataclass(frozen=True, slots=True)
class Violation:
    """One row that breaks an invariant."""

    name: str
    detail: str


@dataclass(frozen=True, slots=True)
class References:
    """How many files there are, their bytes, and how often each kind of row refers to them."""

    files: int
    nbytes: int
    workunits: int
    app_versions: int
    requests: int
    holds: int


def wrong_downloads() -> list[Violation]:
    """Files that clients may ask for, and that are not there or of another length."""
    found = []
    for batch in _batches():
        there = storage.download_sizes([file.name for file in batch])
        for file in batch:
            nbytes = there.get(file.name)
            if nbytes == file.nbytes or not _lives(file):
                continue
            detail = "is not there" if nbytes is None else f"has {nbytes} bytes, not {file.nbytes}"
            found.append(Violation(file.name, detail))
    return found


def unknown_downloads(now: datetime) -> list[Violation]:
    """Published files, on the disk and in the store, that no row knows and no submission brings."""
    found = []
    for files in storage.old_downloads(before=now - _UNDER_WAY):
        names = [file.name for file in files]
        known = {row["name"] for row in sql.fetch("read_known_files", {"names": names})}
        found += [
            Violation(file.name, f"{file.nbytes} bytes, of no row")
            for file in files
            if file.name not in known
        ]
    return found


def damaged_files(progress: Callable[[int], None]) -> list[Violation]:
    """Read every file from end to end: downloads, and outputs that are needed; what differs.

    `progress` is told of each file how many bytes it should have.  What is missing or of another
    length is not said again: that is found without reading.
    """
    found: list[Violation] = []
    for batch in _batches():
        for file in batch:
            found += _compared(file.name, file.sha256, storage.download_digest)
            progress(file.nbytes)
    for output in _needed_outputs().iterator(BATCH):
        found += _compared(output.name, output.sha256, storage.upload_digest)
        progress(output.nbytes)
    return found


def bytes_to_read() -> int:
    """How many bytes `damaged_files` reads."""
    downloads = _ours().aggregate(n=Sum("nbytes"))["n"] or 0
    return int(downloads + (_needed_outputs().aggregate(n=Sum("nbytes"))["n"] or 0))


def references() -> References:
    """Count what refers to files, by each of the foreign keys that keep them."""
    return References(
        files=_ours().count(),
        nbytes=int(_ours().aggregate(n=Sum("nbytes"))["n"] or 0),
        workunits=WorkunitFile.objects.count(),
        app_versions=AppVersionFile.objects.count(),
        requests=FileRequest.objects.exclude(file=None).count(),
        holds=FileHold.objects.count(),
    )


def _compared(name: str, sha256: str, read: Callable[[str], storage.Digest]) -> Iterator[Violation]:
    try:
        digest = read(name)
    except FileNotFoundError:
        return
    except OSError as error:
        yield Violation(name, f"cannot be read: {error}")
        return
    if digest.sha256 != sha256:
        yield Violation(name, f"has SHA-256 {digest.sha256}, not {sha256}")


def _ours() -> QuerySet[File]:
    """Files that clients fetch from us; those with addresses of their own lie elsewhere."""
    return File.objects.filter(doomed_at=None, urls="")


def _needed_outputs() -> QuerySet[ResultFile]:
    return ResultFile.objects.filter(result__file_delete_state=FileDeleteState.INIT).order_by("pk")


def _batches() -> Iterator[list[File]]:
    last = 0
    rows = _ours().order_by("pk")
    while batch := list(rows.filter(pk__gt=last)[:BATCH]):
        last = batch[-1].pk
        yield batch


def _lives(file: File) -> bool:
    """Whether a row is not doomed even now: a daemon may have been there since it was read."""
    return _ours().filter(pk=file.pk).exists()
