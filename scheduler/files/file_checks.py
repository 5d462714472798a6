"""Compares files with their rows: what is there, how long it is, what is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import QuerySet, Sum

from scheduler import sql, storage
from scheduler.lifecycle import AssimilateState, Axis, Because, FileDeleteState
from scheduler.models import (
    AppVersionFile,
    File,
    FileHold,
    FileRequest,
    LedgerEntry,
    ResultFile,
    Workunit,
    WorkunitFile,
)
from scheduler.results.facts import result_of

BATCH: Final = 1000
#: A submission puts its files in their places and then commits; it never takes so long.
_UNDER_WAY: Final = timedelta(days=1)

#: The assimilator that files answers in `results`.
COPY_FILES: Final = "copy_files"

REFILE: Final = (
    "Hint: restore them from what you saved, or have them filed again from the outputs "
    "(`manage.py revalidate`), while those are kept."
)
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
        known = {row["name"] for row in sql.fetch("files/read_known_files", {"names": names})}
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


def wrong_answers() -> list[Violation]:
    """Answers of assimilated workunits that are missing in `results`, or have other content.

    Of apps whose answers `copy_files` files there, as long as the workunit is not purged; answers
    that staff gave up were never filed.
    """
    found: list[Violation] = []
    last = 0
    rows = Workunit.objects.filter(
        assimilate_state=AssimilateState.DONE, app__assimilator=COPY_FILES
    ).select_related("app")
    while batch := list(rows.filter(pk__gt=last).order_by("pk")[:BATCH]):
        last = batch[-1].pk
        given_up = set(
            LedgerEntry.objects.filter(
                workunit_id__in=[workunit.pk for workunit in batch],
                axis=Axis.ASSIMILATION.value,
                because=Because.GIVEN_UP.value,
            ).values_list("workunit_id", flat=True)
        )
        outputs: dict[int, list[ResultFile]] = {}
        canonical = [w.canonical_result_id for w in batch if w.canonical_result_id is not None]
        for output in ResultFile.objects.filter(result_id__in=canonical).order_by("position"):
            outputs.setdefault(output.result_id, []).append(output)
        for workunit in batch:
            if workunit.pk not in given_up:
                found += _wrong_answer(workunit, outputs.get(workunit.canonical_result_id or 0, ()))
    return found


def _wrong_answer(workunit: Workunit, outputs: Iterable[ResultFile]) -> Iterator[Violation]:
    app = workunit.app.name
    if workunit.canonical_result_id is None:
        relative = f"{workunit.name}/FAILED.json"
        if not storage.result_exists(app=app, relative=relative):
            yield Violation(f"{app}/{relative}", "is not there")
        return
    for output in outputs:
        declared = workunit.outputs[output.position] if workunit.outputs else {}
        relative = f"{workunit.name}/{declared.get('open_name') or f'output_{output.position}'}"
        try:
            digest = storage.result_digest(app=app, relative=relative)
        except FileNotFoundError:
            yield Violation(f"{app}/{relative}", "is not there")
        except OSError as error:
            yield Violation(f"{app}/{relative}", f"cannot be read: {error}")
        else:
            if digest.sha256 != output.sha256:
                yield Violation(
                    f"{app}/{relative}", f"has SHA-256 {digest.sha256}, not {output.sha256}"
                )


def stray_uploads(now: datetime) -> list[Violation]:
    """Uploads, finished or not, that belong to no result with outputs, and are over a day old."""
    found = []
    for files in storage.old_uploads(before=now - _UNDER_WAY):
        owners = {file.name: result_of(file.name) for file in files}
        ids = sorted({owner for owner in owners.values() if owner is not None})
        living = {row["id"] for row in sql.fetch("files/read_living_results", {"ids": ids})}
        found += [
            Violation(file.name, f"{file.nbytes} bytes, of no result")
            for file in files
            if owners[file.name] not in living
        ]
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
