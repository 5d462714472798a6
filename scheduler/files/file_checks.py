"""Compares files with their rows: presence, size and content."""

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
#: A submission publishes its files and then commits, which always takes less than this.
_MAX_SUBMISSION_TIME: Final = timedelta(days=1)

#: The assimilator that copies outputs to `results`.
COPY_FILES: Final = "copy_files"

REFILE: Final = (
    "Hint: restore them from a backup, or copy them again from the outputs while those are kept "
    "(`manage.py revalidate`)."
)
RESTORE: Final = (
    "Hint: restore them under these names from a backup; without one, cancel the workunits that "
    "need them (`manage.py cancel_work`) and submit them again."
)


@dataclass(frozen=True, slots=True)
class Violation:
    """One row that breaks an invariant."""

    name: str
    detail: str


@dataclass(frozen=True, slots=True)
class References:
    """The number of files, their total bytes, and the number of references of each kind."""

    files: int
    nbytes: int
    workunits: int
    app_versions: int
    requests: int
    holds: int


def wrong_downloads() -> list[Violation]:
    """Return the files for clients that are missing or have another size than their row."""
    violations = []
    for batch in _batches():
        there = storage.download_sizes([file.name for file in batch])
        for file in batch:
            nbytes = there.get(file.name)
            if nbytes == file.nbytes or not _still_exists(file):
                continue
            detail = "is not there" if nbytes is None else f"has {nbytes} bytes, not {file.nbytes}"
            violations.append(Violation(file.name, detail))
    return violations


def unknown_downloads(now: datetime) -> list[Violation]:
    """Return the published files, on disk and in the store, without a row, and over a day old."""
    violations = []
    for files in storage.old_downloads(before=now - _MAX_SUBMISSION_TIME):
        names = [file.name for file in files]
        known_names = {row["name"] for row in sql.fetch("files/read_known_files", {"names": names})}
        violations += [
            Violation(file.name, f"{file.nbytes} bytes, of no row")
            for file in files
            if file.name not in known_names
        ]
    return violations


def damaged_files(progress: Callable[[int], None]) -> list[Violation]:
    """Read every download and needed output, and return those whose content has changed.

    `progress` is called after each file with its expected size.  Missing files are not reported:
    `wrong_downloads` reports them without reading.
    """
    violations: list[Violation] = []
    for batch in _batches():
        for file in batch:
            violations += _compared(file.name, file.sha256, storage.download_digest)
            progress(file.nbytes)
    for output in _needed_outputs().iterator(BATCH):
        violations += _compared(output.name, output.sha256, storage.upload_digest)
        progress(output.nbytes)
    return violations


def wrong_answers() -> list[Violation]:
    """Return the outputs of assimilated workunits that are missing or changed in `results`.

    Only apps with the assimilator `copy_files` are checked, and workunits that are not purged;
    workunits that staff gave up were never copied.
    """
    violations: list[Violation] = []
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
                violations += _wrong_answer(
                    workunit, outputs.get(workunit.canonical_result_id or 0, ())
                )
    return violations


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
    """Return uploads, complete or not, of no result with outputs, that are over a day old."""
    violations = []
    for files in storage.old_uploads(before=now - _MAX_SUBMISSION_TIME):
        owners = {file.name: result_of(file.name) for file in files}
        ids = sorted({owner for owner in owners.values() if owner is not None})
        living_ids = {row["id"] for row in sql.fetch("files/read_living_results", {"ids": ids})}
        violations += [
            Violation(file.name, f"{file.nbytes} bytes, of no result")
            for file in files
            if owners[file.name] not in living_ids
        ]
    return violations


def bytes_to_read() -> int:
    """Return how many bytes `damaged_files` reads."""
    downloads = _served_files().aggregate(n=Sum("nbytes"))["n"] or 0
    return int(downloads + (_needed_outputs().aggregate(n=Sum("nbytes"))["n"] or 0))


def references() -> References:
    """Count the references to files, by each of the foreign keys that keep them."""
    return References(
        files=_served_files().count(),
        nbytes=int(_served_files().aggregate(n=Sum("nbytes"))["n"] or 0),
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


def _served_files() -> QuerySet[File]:
    """Return the files that the server serves; those with `urls` are on other servers."""
    return File.objects.filter(doomed_at=None, urls="")


def _needed_outputs() -> QuerySet[ResultFile]:
    return ResultFile.objects.filter(result__file_delete_state=FileDeleteState.INIT).order_by("pk")


def _batches() -> Iterator[list[File]]:
    last = 0
    rows = _served_files().order_by("pk")
    while batch := list(rows.filter(pk__gt=last)[:BATCH]):
        last = batch[-1].pk
        yield batch


def _still_exists(file: File) -> bool:
    """Return whether a row is still not marked for deletion; a daemon may have changed it."""
    return _served_files().filter(pk=file.pk).exists()
