"""Checks the invariants on the live database and shows violations."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone
from rich.progress import DownloadColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from scheduler.files import file_checks
from scheduler.files.file_checks import Violation
from scheduler.health.checks.check_runs import Outcome
from scheduler.health.invariants import Invariant, invariants
from scheduler.health.rules.check_findings import MAX_ROWS, Finding
from scheduler.management import check_results
from scheduler.management.base import PlainCommand
from scheduler.management.progress import progress_bar
from scheduler.models import CheckRun

#: Maximum number of violations printed for each invariant; ``--json`` prints all.
MAX_SHOWN = MAX_ROWS


class Command(PlainCommand):
    """``fsck [--json] [--digests] [--list]``."""

    help = (
        "Check the invariants on the live database, and show the rows that violate them. "
        "The result is stored, and shown by the page Upkeep of the administration. "
        "Exit status: 0 no violations, 1 violations."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument(
            "--digests",
            action="store_true",
            help="also read every file, verify its hash, and count the references to files",
        )
        parser.add_argument("--list", action="store_true", help="list the invariants, and exit")

    def handle(self, *_args: Any, **options: Any) -> None:
        checked, started_at = invariants(), timezone.now()
        if options["list"]:
            lines = [f"{invariant.name}: {invariant.sentence}" for invariant in checked]
            self.stdout.write("\n".join(lines))
            return
        broken = _check(checked)
        references = None
        if options["digests"]:
            for invariant in (read := (_as_read(), *_OF_FILES)):
                if violations := invariant.find(timezone.now()):
                    broken.append((invariant, violations))
            checked = (*checked, *read)
            references = file_checks.references()
        # Before the output, so that a closed pipe does not prevent it.
        stored_options = {"digests": bool(options["digests"])}
        check_results.store(
            self.stderr,
            CheckRun.Kind.FSCK,
            _outcome(checked, broken),
            options=stored_options,
            started_at=started_at,
        )
        total = sum(len(violations) for _, violations in broken)
        count = f"{total} violation{'' if total == 1 else 's'}"
        if options["json"]:
            report = _as_json(checked, broken)
            if references is not None:
                report["references"] = asdict(references)
            self.stdout.write(json.dumps(report, indent=2))
        else:
            counts = [_counted(references)] if references is not None else []
            self.stdout.write("\n".join([*_lines(broken), *counts, f"fsck: {count}"]))
        if total:
            sys.exit(1)


#: Invariants that `--digests` checks by listing every file.
_OF_FILES = (
    Invariant(
        "answers_are_kept",
        "Every output that was copied to `results` exists there with unchanged content.",
        lambda _now: file_checks.wrong_answers(),
        file_checks.REFILE,
    ),
    Invariant(
        "uploads_have_a_result",
        "Every upload belongs to a result whose outputs are kept, or is less than a day old.",
        file_checks.stray_uploads,
        "Hint: `manage.py delete_antique_files` and the housekeeper delete these uploads.",
    ),
)


def _check(checked: tuple[Invariant, ...]) -> list[tuple[Invariant, list[Violation]]]:
    broken = []
    columns = MofNCompleteColumn(), TextColumn("{task.fields[at]}")
    with progress_bar("fsck", *columns, total=lambda: len(checked)) as advance:
        for invariant in checked:
            advance(1, at=invariant.name.replace("_", " "))
            if violations := invariant.find(timezone.now()):
                broken.append((invariant, violations))
    return broken


def _outcome(
    checked: tuple[Invariant, ...], broken: list[tuple[Invariant, list[Violation]]]
) -> Outcome:
    findings = [
        Finding.of(
            invariant.name,
            invariant.sentence,
            ((row.name, row.detail) for row in violations),
            count=len(violations),
            hint=invariant.hint,
        )
        for invariant, violations in broken
    ]
    return Outcome(len(checked), [invariant.name for invariant in checked], findings)


def _lines(broken: list[tuple[Invariant, list[Violation]]]) -> Iterator[str]:
    for invariant, violations in broken:
        yield f"Broken: {invariant.sentence}"
        yield from (f"  {row.name}: {row.detail}" for row in violations[:MAX_SHOWN])
        if len(violations) > MAX_SHOWN:
            yield f"  ... and {len(violations) - MAX_SHOWN} more."
        if invariant.hint:
            yield f"  {invariant.hint}"


def _as_read() -> Invariant:
    """Return the invariant on file hashes; its check reads every file and shows a progress bar."""

    def find(_now: datetime) -> list[Violation]:
        columns = DownloadColumn(), TimeRemainingColumn()
        with progress_bar("fsck", *columns, total=file_checks.bytes_to_read) as advance:
            return file_checks.damaged_files(advance)

    return Invariant(
        "files_are_as_hashed",
        "Every needed file has the content whose hash is in the database.",
        find,
        file_checks.RESTORE,
    )


def _counted(counts: file_checks.FileReferenceCounts) -> str:
    return (
        f"files: {counts.files} of {counts.nbytes} bytes, referred to by {counts.workunits} "
        f"inputs of workunits, {counts.app_versions} parts of app versions, {counts.requests} "
        f"requests of hosts and {counts.holds} holds"
    )


def _as_json(
    checked: tuple[Invariant, ...], broken: list[tuple[Invariant, list[Violation]]]
) -> dict[str, Any]:
    rows = {invariant.name: [asdict(row) for row in violations] for invariant, violations in broken}
    return {
        "violations": sum(map(len, rows.values())),
        "invariants": [
            {
                "name": invariant.name,
                "sentence": invariant.sentence,
                "broken_by": rows.get(invariant.name, []),
            }
            for invariant in checked
        ],
    }
