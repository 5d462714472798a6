"""Checks the invariants on the live database and shows the rows that break one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from scheduler.files import file_checks
from scheduler.files.file_checks import Violation
from scheduler.health.invariants import Invariant, invariants
from scheduler.management.parsing import PlainCommand

#: As many rows of each invariant are shown; JSON has them all.
SHOWN = 20


class Command(PlainCommand):
    """Check everything that must hold."""

    help = (
        "Check on the live database what must always hold, and show the rows that break it. "
        "Exit status: 0 all holds, 1 something does not."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument("--json", action="store_true", help="answer in JSON")
        parser.add_argument(
            "--digests",
            action="store_true",
            help="also read every file, compare its hash, and count what refers to files",
        )
        parser.add_argument("--list", action="store_true", help="say what is checked, and exit")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Check, print, and exit with 1 if something is broken."""
        checked = invariants()
        if options["list"]:
            self.stdout.write("\n".join(f"{one.name}: {one.sentence}" for one in checked))
            return
        broken = _check(checked)
        counted = None
        if options["digests"]:
            for invariant in (read := (_as_read(), *_OF_FILES)):
                if found := invariant.find(timezone.now()):
                    broken.append((invariant, found))
            checked = (*checked, *read)
            counted = file_checks.references()
        total = sum(len(found) for _, found in broken)
        if options["json"]:
            said = _as_json(checked, broken)
            if counted is not None:
                said["references"] = asdict(counted)
            self.stdout.write(json.dumps(said, indent=2))
        else:
            counts = [_counted(counted)] if counted is not None else []
            self.stdout.write("\n".join([*_lines(broken), *counts, f"fsck: {_count(total)}"]))
        if total:
            sys.exit(1)


#: What only looking at every file can show, beside their content.
_OF_FILES = (
    Invariant(
        "answers_are_kept",
        "Every answer that was filed in `results` is there, with the content of its output.",
        lambda _now: file_checks.wrong_answers(),
        file_checks.REFILE,
    ),
    Invariant(
        "uploads_have_a_result",
        "Every upload is of a result whose outputs are kept, or less than a day old.",
        file_checks.stray_uploads,
        "Hint: `manage.py delete_antique_files` deletes them, as the housekeeper does daily.",
    ),
)


def _check(checked: tuple[Invariant, ...]) -> list[tuple[Invariant, list[Violation]]]:
    broken = []
    with _progress(len(checked)) as begin:
        for invariant in checked:
            begin(invariant.name)
            if found := invariant.find(timezone.now()):
                broken.append((invariant, found))
    return broken


@contextmanager
def _progress(total: int) -> Iterator[Any]:
    """A bar on standard error if that is a terminal, else nothing."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _name: None
        return
    columns = (
        TextColumn("fsck"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[at]}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("fsck", total=total, at="")
        yield lambda name: progress.update(task, advance=1, at=name.replace("_", " "))


def _lines(broken: list[tuple[Invariant, list[Violation]]]) -> Iterator[str]:
    for invariant, found in broken:
        yield f"Broken: {invariant.sentence}"
        yield from (f"  {violation.name}: {violation.detail}" for violation in found[:SHOWN])
        if len(found) > SHOWN:
            yield f"  ... and {len(found) - SHOWN} more."
        if invariant.hint:
            yield f"  {invariant.hint}"


def _as_read() -> Invariant:
    """What only reading every file can show, with a bar for bytes."""

    def find(_now: datetime) -> list[Violation]:
        console = Console(stderr=True)
        if not console.is_terminal:
            return file_checks.damaged_files(lambda _nbytes: None)
        columns = (TextColumn("fsck"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("digests", total=file_checks.bytes_to_read())
            return file_checks.damaged_files(lambda nbytes: progress.update(task, advance=nbytes))

    return Invariant(
        "files_are_as_hashed",
        "Every file that is needed has the content of which the database has the hash.",
        find,
        file_checks.RESTORE,
    )


def _counted(counted: file_checks.References) -> str:
    return (
        f"files: {counted.files} of {counted.nbytes} bytes, referred to by {counted.workunits} "
        f"inputs of workunits, {counted.app_versions} parts of app versions, {counted.requests} "
        f"requests of hosts and {counted.holds} holds"
    )


def _count(total: int) -> str:
    return f"{total} violation{'' if total == 1 else 's'}"


def _as_json(
    checked: tuple[Invariant, ...], broken: list[tuple[Invariant, list[Violation]]]
) -> dict[str, Any]:
    rows = {
        invariant.name: [{"name": one.name, "detail": one.detail} for one in found]
        for invariant, found in broken
    }
    return {
        "violations": sum(map(len, rows.values())),
        "invariants": [
            {"name": one.name, "sentence": one.sentence, "broken_by": rows.get(one.name, [])}
            for one in checked
        ],
    }
