"""Deletes uploads that nobody will ask for, and files of failed submissions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler.files import antiques
from scheduler.management.conversation import Answer, Conversation, duration, plural

#: Seconds of rest between some thousand files, so that uploads and downloads go on.
REST = 0.05


class Command(Conversation):
    """``delete_antique_files [--min-age AGE] [--dry-run]``."""

    help = (
        "Delete uploads from before the oldest workunit that is not assimilated, if no result "
        "needs them, and published files that the database does not know."
    )
    refusals: ClassVar[tuple[type[Exception], ...]] = (antiques.TooYoung,)

    def ask(self, parser: CommandParser) -> None:
        """Ask how old, and whether only to look."""
        parser.add_argument(
            "--min-age",
            metavar="AGE",
            type=duration,
            default=antiques.MIN_AGE,
            help="uploads younger than this are kept in any case (30d)",
        )
        parser.add_argument("--dry-run", action="store_true", help="only say what would be done")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        """Delete, or count."""
        dry_run = options["dry_run"]
        found = antiques.delete_antique_files(
            timezone.now(),
            dry_run=dry_run,
            min_age=options["min_age"],
            rest=lambda: time.sleep(REST),
        )
        up, down = found.uploads, found.downloads
        verb = "Would delete" if dry_run else "Deleted"
        names = "".join(f"\n  {name}" for name in (*up.names, *down.names)) if dry_run else ""
        return Answer(
            f"{verb} {plural(up.files, 'antique upload')} ({_size(up.nbytes)}) and "
            f"{plural(down.files, 'orphan')} among the downloads ({_size(down.nbytes)}).{names}",
            {
                "dry_run": dry_run,
                "before": found.before,
                "uploads": up.files,
                "upload_bytes": up.nbytes,
                "downloads": down.files,
                "download_bytes": down.nbytes,
                "first_names": [*up.names, *down.names],
            },
        )


def _size(nbytes: int) -> str:
    return plural(nbytes, "byte")
