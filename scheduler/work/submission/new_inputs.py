"""Stage what new workunits bring, and keep it as files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from scheduler import storage
from scheduler.files import download_files
from scheduler.work.submission.facts import NewFile, NewWorkunit

#: Contents and paths, each hashed once.
AllStaged = dict[bytes | str, storage.Staged]
#: By the index of each workunit that has inputs: its files with the ids of their rows.
Kept = dict[int, list[tuple[int, NewFile]]]


@contextmanager
def staged(workunits: Sequence[NewWorkunit]) -> Iterator[AllStaged]:
    """Every content and every path that the workunits bring, hashed, each once."""
    found: AllStaged = {}
    try:
        for workunit in workunits:
            for file in workunit.input_files:
                if file.content is not None and file.content not in found:
                    found[file.content] = storage.stage_bytes(file.content)
                elif file.path is not None and file.path not in found:
                    found[file.path] = storage.stage_file(file.path)
        yield found
    finally:
        for left_over in found.values():
            storage.discard(left_over)


def keep(
    workunits: Sequence[NewWorkunit],
    contents: AllStaged,
    *,
    tell: Callable[[int], None],
    now: datetime,
) -> Kept:
    """By the index of each workunit that has inputs: its files with the ids of their rows.

    In the caller's transaction; raises what `files.keep` raises.  `tell` is called with the bytes
    of the inputs of the workunit that has most.
    """
    listed = {file for workunit in workunits for file in workunit.input_files}
    if not listed:
        return {}
    wanted, names, digests = {}, set(), set()
    for file in listed:
        if file.known_as is not None:
            names.add(file.known_as)
        elif file.sha256 is not None:
            digests.add(file.sha256)
        else:
            found = contents[_source(file)]
            wanted[found.digest.sha256] = download_files.Wanted(found, file.path or file.open_name)
    by_sha, by_name = download_files.keep(wanted, names=names, digests=digests, now=now)

    def row(file: NewFile) -> download_files.KnownFile:
        if file.known_as is not None:
            return by_name[file.known_as]
        return by_sha[file.sha256 or contents[_source(file)].digest.sha256]

    kept: Kept = {}
    largest = 0
    for index, workunit in enumerate(workunits):
        if workunit.input_files:
            rows = [row(file) for file in workunit.input_files]
            kept[index] = [
                (known.id, file) for known, file in zip(rows, workunit.input_files, strict=True)
            ]
            largest = max(largest, sum(known.nbytes for known in rows))
    tell(largest)
    return kept


def file_ids(inputs: Kept) -> set[int]:
    """The rows that these inputs refer to, each once."""
    return {file_id for some in inputs.values() for file_id, _ in some}


def _source(file: NewFile) -> bytes | str:
    return file.content if file.content is not None else file.path or ""
