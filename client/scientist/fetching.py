"""Downloads the outputs of a batch into a folder and verifies their digests.

Theory of operation.  The manifest is requested first; it has the size and digest of each file.
Then the files are streamed.  The files of a workunit are collected in ``.scientist/``, renamed into
place when all digests match, and recorded in the folder's own manifest, which a later run reads.
The cursor is saved when all workunits before it are in place.  Therefore, a run after an
interrupted run begins at the saved cursor, and keeps the workunits that were recorded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scientist import archive, models
from scientist.errors import Damaged, PlaceTaken, Unreachable
from scientist.placing import Layout, Store
from scientist.transport import Transport
from scientist.words import count

_MAX_TRIES = 4
#: Up to this number of missing workunits are requested one by one, if a stream of all workunits
#: would repeat more workunits than are missing.
_MAX_SINGLE_REQUESTS = 50
_FOLLOW_SECONDS = 3.0
#: The maximum number of workunits that an error message names.
_MAX_NAMED = 3

#: A callback with the number of workunits in place, the total number of workunits, the number of
#: received bytes and the total number of bytes.
OnProgress = Callable[[int, int, int, int], None]


def ignore_progress(workunits: int, of: int, nbytes: int, of_nbytes: int) -> None:
    """Default progress callback, which does nothing."""


@dataclass(frozen=True, slots=True)
class FetchSummary:
    """The outcome of a fetch.

    `brought` is the number of workunits that this fetch placed, and `nbytes` the number of bytes
    that it received.  `already` is the number of workunits that earlier fetches placed.  `failed`
    has the names of failed workunits.  `lost` has the names of workunits whose outputs the project
    no longer has.  `is_complete` is True if the batch was complete.
    """

    brought: int = 0
    already: int = 0
    failed: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    nbytes: int = 0
    is_complete: bool = False


class _Run:
    """One pass of a fetch, which reads the manifest and the files and saves the cursor."""

    def __init__(
        self, transport: Transport, store: Store, batch: int, on_progress: OnProgress
    ) -> None:
        self._transport, self._store, self._batch = transport, store, batch
        self._on_progress = on_progress
        self._expected: dict[str, models.ManifestEntry] = {}
        #: The length and digest of each received file, by workunit and path.
        self._arrived: dict[str, dict[str, tuple[int, str]]] = {}
        self.damaged: set[str] = set()
        self.lost: set[str] = set()
        self.failed: dict[str, models.ManifestEntry] = {}
        self.brought = self.nbytes = self._of_nbytes = self._skipped = 0

    def once(self) -> None:
        """Fetch all outputs since the saved cursor.

        Workunits with damaged files are added to `damaged`.  Raises Unreachable if the stream
        breaks off.
        """
        since = self._store.cursor
        cursor = self._read(archive.manifest(self._transport, self._batch, since))
        self._count(0)
        if not self._expected:
            if not self._store.conflicts:
                # Everything in the manifest is in place.
                self._store.save_cursor(cursor)
            return
        if self._skipped > len(self._expected) <= _MAX_SINGLE_REQUESTS:
            # Most workunits are in place, from an interrupted fetch.
            for name in list(self._expected):
                self._read(archive.outputs(self._transport, self._batch, None, name))
        else:
            cursor = self._read(archive.outputs(self._transport, self._batch, since))
        for name in list(self._expected):
            self._settle(name, last=True)
        if cursor and not self.damaged and not self._store.conflicts:
            self._store.save_cursor(cursor)

    def _read(self, stream: Iterator[archive.Piece]) -> str:
        """Process the items of a stream, and return the cursor at its end."""
        cursor = ""
        for item in stream:
            match item:
                case archive.Member():
                    self._receive(item)
                case models.ManifestEntry():
                    self._expect(item)
                case archive.Cursor():
                    cursor = item.value
        return cursor

    def _expect(self, entry: models.ManifestEntry) -> None:
        if entry.status == "failed":
            self.failed.setdefault(entry.name, entry)
        if entry.status != "done":
            return
        if self._store.has(entry):
            self._skipped += 1
            return
        if entry.name in self.damaged | self.lost | self._store.conflicts.keys():
            return
        if entry.name not in self._expected:
            self._of_nbytes += sum(output.nbytes for output in entry.outputs)
        # An entry in the archive's manifest replaces the entry of the first manifest, because only
        # the archive's manifest has member names and lost files.
        self._expected[entry.name] = entry
        self._settle(entry.name)

    def _receive(self, member: archive.Member) -> None:
        name = member.workunit
        if name in self._store.conflicts or (
            self._store.statuses.get(name) == "done" and name not in self._expected
        ):
            return
        self._arrived.setdefault(name, {})[member.path] = self._store.receive(member, self._count)
        self._settle(name)

    def _settle(self, name: str, *, last: bool = False) -> None:
        """Place a workunit whose files have all arrived, or record it as damaged or lost.

        If files are missing, this method does nothing, unless `last` is set.  At the end of the
        stream, `last` is set, and a workunit with missing files is recorded as damaged.
        """
        entry, files = self._expected.get(name), self._arrived.get(name, {})
        if entry is None or not (last or len(files) >= len(entry.outputs)):
            return
        del self._expected[name]
        self._arrived.pop(name, None)
        if any(output.missing or output.damaged for output in entry.outputs):
            self._store.drop(name)
            self.lost.add(name)
        elif all(_matches(out, files.get(archive.path_of(out))) for out in entry.outputs):
            self.brought += self._store.place(entry)
            self._count(0)
        else:
            self._store.drop(name)
            self.damaged.add(name)

    def _count(self, nbytes: int) -> None:
        self.nbytes += nbytes
        total = self.brought + len(self._expected)
        self._on_progress(self.brought, total, self.nbytes, self._of_nbytes)


def _matches(output: models.Output, received: tuple[int, str] | None) -> bool:
    nbytes, digest = received or (None, None)
    return nbytes == output.nbytes and output.sha256 in {None, digest}


def fetch(
    transport: Transport,
    batch: models.BatchInfo,
    layout: Layout,
    *,
    follow: bool = False,
    on_progress: OnProgress = ignore_progress,
) -> FetchSummary:
    """Download the outputs of a batch into a folder, as `batches.Batch.fetch` describes."""
    store = Store(layout, transport.url, batch)
    brought = nbytes = 0
    failed: dict[str, models.ManifestEntry] = {}
    lost: set[str] = set()
    try:
        while True:
            progress = transport.get(f"batches/{batch.id}/progress")
            progress_at_start = models.read(models.Progress, progress.get("progress", progress))
            run = _run_with_retries(transport, store, batch.id, on_progress)
            brought, nbytes = brought + run.brought, nbytes + run.nbytes
            failed |= run.failed
            lost |= run.lost
            if progress_at_start.is_complete or not follow:
                break
            time.sleep(_FOLLOW_SECONDS)
        if layout.failed:
            _fetch_stderr(transport, store, failed)
        for entry in failed.values():
            if entry.name not in store.conflicts:
                store.record(entry)
        store.write_table()
    finally:
        store.clean()
    if store.conflicts:
        raise _place_taken(store)
    done = sum(status == "done" for status in store.statuses.values())
    return FetchSummary(
        brought=brought,
        already=done - brought,
        failed=tuple(failed),
        lost=tuple(sorted(lost)),
        nbytes=nbytes,
        is_complete=progress_at_start.is_complete,
    )


def _run_with_retries(
    transport: Transport, store: Store, batch: int, on_progress: OnProgress
) -> _Run:
    """Run a pass, and repeat it if the stream breaks off or files are damaged.

    Returns the last pass; its `brought` and `nbytes` are the totals of all passes.  Raises
    Unreachable or Damaged if the last attempt fails.
    """
    brought = nbytes = 0
    for tries_left in reversed(range(_MAX_TRIES)):
        run = _Run(transport, store, batch, on_progress)
        try:
            run.once()
        except Unreachable:
            if not tries_left:
                raise
            continue
        finally:
            brought, nbytes = brought + run.brought, nbytes + run.nbytes
        if run.damaged and tries_left:
            continue
        if run.damaged:
            names = sorted(run.damaged)[:_MAX_NAMED] + ["..."] * (len(run.damaged) > _MAX_NAMED)
            reason = f"{count(len(run.damaged), 'workunit')} arrived damaged: {', '.join(names)}."
            raise Damaged(reason, "fetch again; complete workunits are kept.")
        run.brought, run.nbytes = brought, nbytes
        return run
    raise AssertionError


def _fetch_stderr(
    transport: Transport, store: Store, failed: dict[str, models.ManifestEntry]
) -> None:
    for name, entry in failed.items():
        if store.statuses.get(name) != "failed":
            reasons = f"{name} failed: {', '.join(entry.errors) or 'reason unknown'}\n"
            store.place_text(entry, reasons + archive.stderr_of(transport, entry.id))


def _place_taken(store: Store) -> PlaceTaken:
    paths = [f"{path} (of {name})" for name, path in sorted(store.conflicts.items())[:_MAX_NAMED]]
    paths += ["..."] * (len(store.conflicts) > _MAX_NAMED)
    reason = f"{count(len(store.conflicts), 'workunit')} could not be placed because other files"
    reason += f" are in the way: {', '.join(paths)}. All other workunits are in place."
    return PlaceTaken(reason, "move them away and fetch again, or fetch into an empty folder.")
