"""Checks that files exist, and have the size and the content in their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from django.db.models import QuerySet, Sum

from scheduler import storage
from scheduler.files.antiques import ORPHAN_AGE, without_result, without_row
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

BATCH: Final = 1000
#: The assimilator that copies outputs to `results`.
COPY_FILES: Final = "copy_files"

REFILE: Final = (
    "Hint: restore them from a backup, or, while the outputs are kept, copy them again by "
    "`manage.py revalidate`."
)
RESTORE: Final = (
    "Hint: restore them under these names from a backup; without one, cancel the workunits that "
    "need them (`manage.py cancel_work`) and submit them again."
)
REMOVE: Final = (
    "Hint: delete it, and check which plug-in may write to `results` (`writes` in PLUGINS)."
)


@dataclass(frozen=True, slots=True)
class Violation:
    """The name of a row or file that violates an invariant, and a description of the violation."""

    name: str
    detail: str


@dataclass(frozen=True, slots=True)
class FileReferenceCounts:
    """The number of served files, their total bytes, and the numbers of references by kind."""

    files: int
    nbytes: int
    workunits: int
    app_versions: int
    requests: int
    holds: int


def wrong_downloads() -> list[Violation]:
    """Return the served files that are missing, or whose size differs from their row."""
    violations = []
    for batch in served_in_batches(BATCH):
        sizes = storage.download_sizes([file.name for file in batch])
        for file in batch:
            nbytes = sizes.get(file.name)
            if nbytes == file.nbytes or not _still_exists(file):
                continue
            detail = "is missing" if nbytes is None else f"has {nbytes} bytes, not {file.nbytes}"
            violations.append(Violation(file.name, detail))
    return violations


def unknown_downloads(now: datetime) -> list[Violation]:
    """Return the downloads on disk and in the store that have no row and are over a day old."""
    return [
        Violation(file.name, f"{file.nbytes} bytes, without a row")
        for files in storage.old_downloads(before=now - ORPHAN_AGE)
        for file in without_row(files)
    ]


def damaged_files(progress: Callable[[int], None]) -> list[Violation]:
    """Read every served file and needed output; return the changed and the unreadable files.

    `progress` is called after each file with its expected size in bytes.  Missing files are not
    returned, because `wrong_downloads` and the invariant `needed_outputs_exist` find these files
    without reading them.
    """
    violations: list[Violation] = []
    for batch in served_in_batches(BATCH):
        for file in batch:
            violations += _compared(
                file.name, file.sha256, partial(storage.download_digest, file.name)
            )
            progress(file.nbytes)
    for output in _needed_outputs().iterator(BATCH):
        violations += _compared(
            output.name, output.sha256, partial(storage.upload_digest, output.name)
        )
        progress(output.nbytes)
    return violations


def wrong_answers() -> list[Violation]:
    """Return the outputs of assimilated workunits that are missing or changed in `results`.

    Only apps with the assimilator `copy_files` are checked.  Purged workunits are not checked, nor
    workunits that staff gave up, whose outputs were never copied.
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
        check = partial(storage.result_exists, app=app, relative=relative)
        if detail := _problem(lambda: "" if check() else "is missing", missing="is missing"):
            yield Violation(f"{app}/{relative}", detail)
        return
    for output in outputs:
        declared = workunit.outputs[output.position] if workunit.outputs else {}
        relative = f"{workunit.name}/{declared.get('open_name') or f'output_{output.position}'}"
        read = partial(storage.result_digest, app=app, relative=relative)
        yield from _compared(f"{app}/{relative}", output.sha256, read, missing="is missing")


def stray_uploads(now: datetime) -> list[Violation]:
    """Return complete and partial uploads over a day old that `without_result` selects."""
    return [
        Violation(file.name, f"{file.nbytes} bytes, without a result")
        for files in storage.old_uploads(before=now - ORPHAN_AGE)
        for file in without_result(files)
    ]


def bytes_to_read() -> int:
    """Return the number of bytes that `damaged_files` reads."""
    downloads = served_files().aggregate(n=Sum("nbytes"))["n"] or 0
    return int(downloads + (_needed_outputs().aggregate(n=Sum("nbytes"))["n"] or 0))


def references() -> FileReferenceCounts:
    return FileReferenceCounts(
        files=served_files().count(),
        nbytes=int(served_files().aggregate(n=Sum("nbytes"))["n"] or 0),
        workunits=WorkunitFile.objects.count(),
        app_versions=AppVersionFile.objects.count(),
        requests=FileRequest.objects.exclude(file=None).count(),
        holds=FileHold.objects.count(),
    )


def _compared(
    name: str, sha256: str, read: Callable[[], storage.Digest], *, missing: str = ""
) -> Iterator[Violation]:
    """Yield a violation if a file's digest differs, or if it is missing and `missing` is set."""

    def difference() -> str:
        actual = read().sha256
        return "" if actual == sha256 else f"has SHA-256 {actual}, not {sha256}"

    if detail := _problem(difference, missing=missing):
        yield Violation(name, detail)


def _problem(check: Callable[[], str], *, missing: str) -> str:
    """Return the text that `check` returns, or a description of the OSError that it raises."""
    try:
        return check()
    except FileNotFoundError:
        return missing
    except storage.NotRegularFile as error:
        return f"was not read: {error}. {REMOVE}"
    except OSError as error:
        return f"cannot be read: {error}"


def served_files() -> QuerySet[File]:
    """Return the files that this server serves; files with `urls` are on other servers."""
    return File.objects.filter(doomed_at=None, urls="")


def _needed_outputs() -> QuerySet[ResultFile]:
    return ResultFile.objects.filter(result__file_delete_state=FileDeleteState.INIT).order_by("pk")


def served_in_batches(size: int) -> Iterator[list[File]]:
    """Yield all served files in lists, including files that are added during the iteration."""
    last = 0
    rows = served_files().order_by("pk")
    while batch := list(rows.filter(pk__gt=last)[:size]):
        last = batch[-1].pk
        yield batch


def _still_exists(file: File) -> bool:
    """Return whether a file is not marked for deletion now; a daemon may have changed its row."""
    return served_files().filter(pk=file.pk).exists()
