"""Stages the input files of new workunits, and stores them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from scheduler import storage
from scheduler.files import download_files
from scheduler.work.submission.facts import NewFile, NewWorkunit

#: Staged files by content or path.
AllStaged = dict[bytes | str, storage.Staged]
#: Maps the index of each workunit that has inputs to its files and the ids of their rows.
Kept = dict[int, list[tuple[int, NewFile]]]


@contextmanager
def staged(workunits: Sequence[NewWorkunit]) -> Iterator[AllStaged]:
    """Yield the staged input files of the workunits; discard unstored files at the end."""
    by_source: AllStaged = {}
    try:
        for workunit in workunits:
            for file in workunit.input_files:
                if file.content is not None and file.content not in by_source:
                    by_source[file.content] = storage.stage_bytes(file.content)
                elif file.path is not None and file.path not in by_source:
                    by_source[file.path] = storage.stage_file(file.path)
        yield by_source
    finally:
        for left_over in by_source.values():
            storage.discard(left_over)


def keep(
    workunits: Sequence[NewWorkunit],
    contents: AllStaged,
    *,
    on_largest: Callable[[int], None],
    now: datetime,
) -> Kept:
    """Store the staged inputs in the caller's transaction, and return them by workunit index.

    Calls `on_largest` with the largest total size of the inputs of one workunit, in bytes.  Raises
    the exceptions of `download_files.keep`.
    """
    # By identity: often all workunits have the same file objects, whose hashes take long.
    files = {id(file): file for workunit in workunits for file in workunit.input_files}
    listed = set(files.values())
    if not listed:
        return {}
    wanted, names, digests = {}, set(), set()
    for file in listed:
        if file.known_as is not None:
            names.add(file.known_as)
        elif file.sha256 is not None:
            digests.add(file.sha256)
        else:
            content = contents[_source(file)]
            wanted[content.digest.sha256] = download_files.Wanted(
                content, file.path or file.open_name
            )
    by_sha, by_name = download_files.keep(wanted, names=names, digests=digests, now=now)

    def row(file: NewFile) -> download_files.KnownFile:
        if file.known_as is not None:
            return by_name[file.known_as]
        return by_sha[file.sha256 or contents[_source(file)].digest.sha256]

    stored = {key: row(file) for key, file in files.items()}
    kept: Kept = {}
    largest = 0
    for index, workunit in enumerate(workunits):
        if workunit.input_files:
            kept[index] = [(stored[id(file)].id, file) for file in workunit.input_files]
            nbytes = sum([stored[id(file)].nbytes for file in workunit.input_files])
            largest = max(largest, nbytes)
    on_largest(largest)
    return kept


def file_ids(inputs: Kept) -> set[int]:
    """Return the ids of the rows of these input files."""
    return {file_id for some in inputs.values() for file_id, _ in some}


def _source(file: NewFile) -> bytes | str:
    return file.content if file.content is not None else file.path or ""
