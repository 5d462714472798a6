"""Deletes uploads that are no longer needed, and files of failed submissions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler import storage
from scheduler.files import antiques
from scheduler.management.base import Answer, JsonCommand, plural
from scheduler.management.parsing import duration

#: Pause after each chunk of files, so that the disk also serves uploads and downloads.
PAUSE_SECONDS = 0.05


class Command(JsonCommand):
    """``delete_antique_files [--min-age AGE] [--dry-run]``."""

    help = (
        "Delete uploads that no result needs and that are older than the oldest unassimilated "
        "workunit. Also delete published files that are not in the database."
    )
    refusals = (antiques.TooYoung, storage.DeletionsHeld)

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--min-age",
            metavar="AGE",
            type=duration,
            default=antiques.MIN_AGE,
            help="keep all uploads that are younger than this (default: 30d)",
        )
        parser.add_argument("--dry-run", action="store_true", help="only print what would be done")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        dry_run = options["dry_run"]
        deleted = antiques.delete_antique_files(
            timezone.now(),
            dry_run=dry_run,
            min_age=options["min_age"],
            rest=lambda: time.sleep(PAUSE_SECONDS),
        )
        up, down = deleted.uploads, deleted.downloads
        up_size, down_size = plural(up.nbytes, "byte"), plural(down.nbytes, "byte")
        verb = "Would delete" if dry_run else "Deleted"
        names = "".join(f"\n  {name}" for name in (*up.names, *down.names)) if dry_run else ""
        return Answer(
            f"{verb} {plural(up.files, 'antique upload')} ({up_size}) and "
            f"{plural(down.files, 'orphan')} among the downloads ({down_size}).{names}",
            {
                "dry_run": dry_run,
                "before": deleted.before,
                "uploads": up.files,
                "upload_bytes": up.nbytes,
                "downloads": down.files,
                "download_bytes": down.nbytes,
                "first_names": [*up.names, *down.names],
            },
        )
