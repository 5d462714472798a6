"""Moves the files that clients download from the disk to the S3 store, or back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from django.core.management.base import CommandParser
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from scheduler import storage
from scheduler.files import move_files
from scheduler.files.file_checks import served_files
from scheduler.management.conversation import Answer, Conversation, plural
from scheduler.storage.moving import Fate


class Command(Conversation):
    """``move_files --to s3|disk [--dry-run]``."""

    help = (
        "Move the files that clients download to the store of STORAGE_URL, or back to the disk. "
        "The server may be running. Each file is verified by its hash before it is deleted at its "
        "source; after an interruption, the next call continues. Exit status: 0 all files are at "
        "the destination, 1 a file could not be moved."
    )
    refusals: ClassVar[tuple[type[Exception], ...]] = (
        move_files.NoStore,
        move_files.StillWritten,
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
        with _progress() as advance:
            done = move_files.move(
                to=options["to"],
                dry_run=options["dry_run"],
                progress=advance,
                now=timezone.now(),
            )
        self._failed = done.failed
        return Answer(
            "\n".join(_lines(done, dry_run=options["dry_run"])),
            {
                "dry_run": options["dry_run"],
                "bytes": done.nbytes,
                **{fate.name.lower(): done.fates[fate] for fate in Fate},
                "names": {fate.name.lower(): names for fate, names in done.names.items()},
                "copies_dropped": done.copies_dropped,
                "copies_waiting": done.copies_waiting,
            },
        )


def _lines(done: move_files.Moved, *, dry_run: bool) -> Iterator[str]:
    verb = "Would move" if dry_run else "Moved"
    there = done.fates[Fate.THERE]
    moved = plural(done.fates[Fate.MOVED], "file")
    yield f"{verb} {moved} ({done.nbytes} bytes); {there} already there."
    for fate, names in done.names.items():
        yield f"{plural(done.fates[fate], 'file')} {fate.value}: {', '.join(names)}"
    if done.failed:
        yield "Hint: `fsck --digests` shows what refers to them; restore them from a backup."
    if done.copies_dropped:
        verb = "would be deleted" if dry_run else "deleted"
        yield f"{plural(done.copies_dropped, 'superfluous file')} in the store {verb}."
    if done.copies_waiting:
        yield (
            f"{plural(done.copies_waiting, 'superfluous file')} in the store must stay while "
            "signed URLs are valid. "
            "Hint: run this again after they have expired."
        )


@contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error if that is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _count: None
        return
    columns = (
        TextColumn("move_files"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("files", total=served_files().count())
        yield lambda count: progress.update(task, advance=count)
