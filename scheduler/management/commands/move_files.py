"""Moves download files between the disk and the S3 store."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone
from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from scheduler import storage
from scheduler.files import move_files
from scheduler.files.file_checks import served_files
from scheduler.management.base import Answer, JsonCommand, plural
from scheduler.management.progress import progress_bar
from scheduler.storage.moving import Fate


class Command(JsonCommand):
    """``move_files --to s3|disk [--dry-run]``."""

    help = (
        "Move download files from the disk to the store of STORAGE_URL, or back. The server may be "
        "running. Each file is verified by its hash before the source is deleted; after an "
        "interruption, the next call continues. Exit status: 0 all files are at the destination, "
        "1 a file could not be moved."
    )
    refusals = (
        move_files.NoStore,
        move_files.StillWritten,
        storage.DeletionsHeld,
        storage.StoreError,
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--to", choices=("s3", "disk"), required=True, help="destination")
        parser.add_argument("--dry-run", action="store_true", help="only print what would be done")

    def handle(self, *_: Any, **options: Any) -> None:
        super().handle(**options)
        if self._failed:
            sys.exit(1)

    def answer(self, options: Mapping[str, Any]) -> Answer:
        dry_run, columns = options["dry_run"], (MofNCompleteColumn(), TimeRemainingColumn())
        with progress_bar("move_files", *columns, total=lambda: served_files().count()) as advance:
            done = move_files.move(
                to=options["to"], dry_run=dry_run, progress=advance, now=timezone.now()
            )
        self._failed = done.failed
        return Answer(
            "\n".join(_lines(done, dry_run=dry_run)),
            {
                "dry_run": dry_run,
                "bytes": done.nbytes,
                **{fate.name.lower(): done.fates[fate] for fate in Fate},
                "names": {fate.name.lower(): names for fate, names in done.names.items()},
                "copies_dropped": done.copies_dropped,
                "copies_waiting": done.copies_waiting,
            },
        )


def _lines(done: move_files.Moved, *, dry_run: bool) -> Iterator[str]:
    moved = f"{'Would move' if dry_run else 'Moved'} {plural(done.fates[Fate.MOVED], 'file')}"
    yield f"{moved} ({done.nbytes} bytes); {done.fates[Fate.THERE]} already there."
    for fate, names in done.names.items():
        yield f"{plural(done.fates[fate], 'file')} {fate.value}: {', '.join(names)}"
    if done.failed:
        yield "Hint: `fsck --digests` lists the references; restore the files from a backup."
    if done.copies_dropped:
        verb = "would be deleted" if dry_run else "deleted"
        yield f"{plural(done.copies_dropped, 'superfluous file')} in the store {verb}."
    if done.copies_waiting:
        yield (
            f"{plural(done.copies_waiting, 'superfluous file')} in the store must stay while "
            "signed URLs are valid. Hint: run this again after they have expired."
        )
