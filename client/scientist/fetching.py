"""Brings outputs home: whole workunits, compared with their digests.

Theory of operation.  The manifest is asked for first, and says what every file must be; then the
files stream.  A workunit is collected in ``.scientist/`` and renamed into place when the last of
its files agrees, then written into the folder's own manifest, which is what a later run knows of
an earlier one.  The cursor moves when everything up to it is in place.  So an interruption costs
what was under way, and nothing that is in place is ever half.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from scientist import archive, models
from scientist.errors import Damaged, PlaceTaken, Unreachable
from scientist.placing import Layout, Store
from scientist.transport import Transport
from scientist.words import count

_TRIES = 4
#: So few workunits are asked for one by one, where the stream would bring many that are there.
_FEW = 50
_FOLLOW_SECONDS = 3.0
#: How many of those that are in trouble are named.
_NAMED = 3

#: Hears of progress: how many workunits are in place, and how many bytes, each of how many.
Tell = Callable[[int, int, int, int], None]


def nobody(workunits: int, of: int, nbytes: int, of_nbytes: int) -> None:
    """Hear of progress and say nothing."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a fetch did: workunits brought now, and those there before; bytes brought.

    `failed` ended without an answer; of those `lost` the project has the outputs no longer.
    """

    brought: int = 0
    already: int = 0
    failed: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    nbytes: int = 0
    is_complete: bool = False


@dataclass(slots=True)
class _Incoming:
    """The files of one workunit that have arrived, with their lengths and digests."""

    files: dict[str, tuple[int, str]] = field(default_factory=dict)


class _Run:
    """One fetch: the manifest, the files, the cursor."""

    def __init__(self, transport: Transport, store: Store, batch: int, tell: Tell) -> None:
        self._transport, self._store, self._batch, self._tell = transport, store, batch, tell
        self._expected: dict[str, models.ManifestEntry] = {}
        self._arrived: dict[str, _Incoming] = {}
        self.damaged: set[str] = set()
        self.lost: set[str] = set()
        self.failed: dict[str, models.ManifestEntry] = {}
        self.brought = self.nbytes = self._of_nbytes = self._skipped = 0

    def once(self) -> None:
        """Bring all that came since the cursor.  Raises Unreachable if the stream breaks off."""
        since = self._store.cursor
        cursor = self._read(archive.manifest(self._transport, self._batch, since))
        self._hear(0)
        if not self._expected:
            if not self._store.taken:
                # Nothing new; the cursor may move, for all that the manifest named is in place.
                self._store.keep_cursor(cursor)
            return
        if self._skipped > len(self._expected) <= _FEW:
            # Most of it is in place, from a fetch that was interrupted.
            for name in list(self._expected):
                self._read(archive.outputs(self._transport, self._batch, None, name))
        else:
            cursor = self._read(archive.outputs(self._transport, self._batch, since))
        for name in list(self._expected):
            self._settle(name, last=True)
        if cursor and not self.damaged and not self._store.taken:
            self._store.keep_cursor(cursor)

    def _read(self, stream: Iterator[archive.Piece]) -> str:
        """Take what streams in; gives the cursor at its end."""
        cursor = ""
        for one in stream:
            match one:
                case archive.Member():
                    self._take(one)
                case models.ManifestEntry():
                    self._expect(one)
                case archive.Cursor():
                    cursor = one.value
        return cursor

    def _expect(self, entry: models.ManifestEntry) -> None:
        if entry.status == "failed":
            self.failed.setdefault(entry.name, entry)
        if entry.status != "done":
            return
        if self._store.has(entry):
            self._skipped += 1
            return
        if entry.name in self.damaged | self.lost | self._store.taken.keys():
            return
        if entry.name not in self._expected:
            self._of_nbytes += sum(one.nbytes for one in entry.outputs)
        # What comes with the files says more: what the archive calls them, and what is lost.
        self._expected[entry.name] = entry
        self._settle(entry.name)

    def _take(self, member: archive.Member) -> None:
        name = member.workunit
        if name in self._store.taken or (
            self._store.known.get(name) == "done" and name not in self._expected
        ):
            return
        got = self._arrived.setdefault(member.workunit, _Incoming())
        got.files[member.path] = self._store.receive(member, self._hear)
        self._settle(member.workunit)

    def _settle(self, name: str, *, last: bool = False) -> None:
        """Put a workunit in place if all of it is there; refuse it if it is not what it must be."""
        entry, got = self._expected.get(name), self._arrived.get(name, _Incoming())
        if entry is None or not (last or len(got.files) >= len(entry.outputs)):
            return
        del self._expected[name]
        self._arrived.pop(name, None)
        if any(one.missing or one.damaged for one in entry.outputs):
            self._store.drop(name)
            self.lost.add(name)
        elif all(_agrees(one, got.files.get(archive.path_of(one))) for one in entry.outputs):
            self.brought += self._store.place(entry)
            self._hear(0)
        else:
            self._store.drop(name)
            self.damaged.add(name)

    def _hear(self, nbytes: int) -> None:
        self.nbytes += nbytes
        waiting = len(self._expected)
        self._tell(self.brought, self.brought + waiting, self.nbytes, self._of_nbytes)


def _agrees(promised: models.Output, got: tuple[int, str] | None) -> bool:
    return got is not None and got[0] == promised.nbytes and promised.sha256 in {None, got[1]}


def fetch(
    transport: Transport,
    batch: models.BatchInfo,
    layout: Layout,
    *,
    follow: bool = False,
    tell: Tell = nobody,
) -> Fetched:
    """Bring a batch's outputs into a folder; see `batches.Batch.fetch`."""
    store = Store(layout, transport.url, batch)
    brought = nbytes = 0
    failed: dict[str, models.ManifestEntry] = {}
    lost: set[str] = set()
    try:
        while True:
            progress = transport.get(f"batches/{batch.id}/progress")
            seen = models.read(models.Progress, progress.get("progress", progress))
            run = _persistently(transport, store, batch.id, tell)
            brought, nbytes = brought + run.brought, nbytes + run.nbytes
            failed |= run.failed
            lost |= run.lost
            if seen.is_complete or not follow:
                break
            time.sleep(_FOLLOW_SECONDS)
        if layout.failed:
            _bring_stderr(transport, store, failed)
        for entry in failed.values():
            if entry.name not in store.taken:
                store.note(entry)
        store.write_table()
    finally:
        store.clean()
    if store.taken:
        raise _taken(store)
    done = sum(status == "done" for status in store.known.values())
    return Fetched(
        brought, done - brought, tuple(failed), tuple(sorted(lost)), nbytes, seen.is_complete
    )


def _persistently(transport: Transport, store: Store, batch: int, tell: Tell) -> _Run:
    """Bring what there is, again if the stream breaks off while something still arrives."""
    brought = 0
    for left in reversed(range(_TRIES)):
        run = _Run(transport, store, batch, tell)
        try:
            run.once()
        except Unreachable:
            brought += run.brought
            if not left:
                raise
            continue
        if run.damaged and left:
            continue
        if run.damaged:
            names = ", ".join(sorted(run.damaged)[:_NAMED]) + ", ..." * (len(run.damaged) > _NAMED)
            said = f"{count(len(run.damaged), 'workunit')} did not arrive as promised: {names}."
            raise Damaged(said, "fetch again; what is in place stays.")
        run.brought += brought
        return run
    raise AssertionError


def _bring_stderr(
    transport: Transport, store: Store, failed: dict[str, models.ManifestEntry]
) -> None:
    for name, entry in failed.items():
        if store.known.get(name) != "failed":
            reasons = f"{name} failed: {', '.join(entry.errors) or 'no reason is known'}\n"
            store.place_text(entry, reasons + archive.stderr_of(transport, entry.id))


def _taken(store: Store) -> PlaceTaken:
    some = [f"{path} (of {name})" for name, path in sorted(store.taken.items())[:_NAMED]]
    some += ["..."] * (len(store.taken) > _NAMED)
    said = f"{count(len(store.taken), 'workunit')} could not be put in place, for something else"
    said += f" is there: {', '.join(some)}. It was left as it is; all others are in place."
    return PlaceTaken(said, "move it away and fetch again, or fetch into an empty folder.")
