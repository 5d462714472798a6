"""Imports BOINC-wide teams from the file boinc_teams.xml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler.boinc.team_import.team_imports import (
    MAX_BYTES,
    BadTeamFile,
    State,
    count,
    import_teams,
)
from scheduler.management.base import Answer, JsonCommand, plural


class Command(JsonCommand):
    """``import_boinc_teams FILE [--dry-run]``."""

    help = (
        "Create and update the teams of boinc_teams.xml, the teams that exist on all BOINC "
        "projects. Fetch the file yourself, from https://boinc.berkeley.edu/boinc_teams.xml. A "
        "team that has another founder here does not change. A founder without an account gets "
        "one without a password."
    )
    refusals = (BadTeamFile,)

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", help="the file, such as boinc_teams.xml")
        parser.add_argument("--dry-run", action="store_true", help="only report what would change")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        dry_run = options["dry_run"]
        lines = import_teams(_read(options["file"]), dry_run=dry_run, now=timezone.now())
        would = "would be " if dry_run else ""
        report = [
            f"{line.name!r}: {'' if line.state is State.SKIPPED else would}{line.state.value}"
            + (f" ({line.reason})" if line.state is State.UPDATED else "")
            + (f". {line.reason}" if line.state is State.SKIPPED else "")
            for line in lines
            if line.state is not State.UNCHANGED
        ]
        counts = {state.value: count(lines, state) for state in State}
        report.append(
            f"{plural(len(lines), 'team')}: {counts['created']} {would}created, "
            f"{counts['updated']} {would}updated, {counts['unchanged']} unchanged, "
            f"{counts['skipped']} skipped."
        )
        facts = [
            {"name": line.name, "state": line.state.value, "reason": line.reason} for line in lines
        ]
        return Answer("\n".join(report), {"dry_run": dry_run, **counts, "teams": facts})


def _read(name: str) -> bytes:
    """Return the content of the file, at most one byte more than is imported."""
    try:
        with Path(name).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        msg = f"{name} cannot be read: {error.strerror}. Hint: check its name and its rights."
        raise CommandError(msg) from error
