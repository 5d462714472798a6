"""Writes the files that statistics sites read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler import storage
from scheduler.management.conversation import Answer, Conversation, plural
from scheduler.management.statistics import BadFolder, export


class Command(Conversation):
    """``export_stats [DIR]``."""

    help = (
        "Write the credit of accounts, teams and hosts for statistics sites, as BOINC does: "
        "tables.xml, user.gz, team.gz, host.gz. Accounts that do not share are left out."
    )
    refusals: ClassVar[tuple[type[Exception], ...]] = (BadFolder,)

    def ask(self, parser: CommandParser) -> None:
        """Add the folder."""
        parser.add_argument(
            "folder",
            metavar="DIR",
            type=Path,
            nargs="?",
            help="where to write; older files are replaced at once (default: the folder that "
            "/stats/ is served from, which is written once a day anyway)",
        )

    def answer(self, options: Mapping[str, Any]) -> Answer:
        """Write the files."""
        folder: Path = options["folder"] or storage.statistics_folder()
        written = export(folder, now=timezone.now())
        people = f"{plural(written.users, 'account')}, {plural(written.teams, 'team')}"
        sentence = f"Wrote {people} and {plural(written.hosts, 'host')} to {folder}."
        return Answer(sentence, asdict(written) | {"folder": str(folder)})
