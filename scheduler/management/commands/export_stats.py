"""Exports credit for statistics sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler import storage
from scheduler.management.base import Answer, JsonCommand, plural
from scheduler.management.statistics import BadFolder, export


class Command(JsonCommand):
    """``export_stats [DIR]``."""

    help = (
        "Write the credit of accounts, teams and hosts for statistics sites, as BOINC does: "
        "tables.xml, user.gz, team.gz, host.gz, lists of deletions and badges. Accounts that do "
        "not share their data are omitted."
    )
    refusals = (BadFolder,)

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument(
            "folder",
            metavar="DIR",
            type=Path,
            nargs="?",
            help="destination folder; existing files are replaced (default: the folder that "
            "/stats/ is served from, which is also written once a day)",
        )

    def answer(self, options: Mapping[str, Any]) -> Answer:
        folder: Path = options["folder"] or storage.statistics_folder()
        written = export(folder, now=timezone.now())
        people = f"{plural(written.users, 'account')}, {plural(written.teams, 'team')}"
        sentence = f"Wrote {people} and {plural(written.hosts, 'host')} to {folder}."
        return Answer(sentence, asdict(written) | {"folder": str(folder)})
