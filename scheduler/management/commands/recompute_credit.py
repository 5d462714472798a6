"""Compares credit totals with sums of credit entries, and corrects differences."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from rich.progress import MofNCompleteColumn

from scheduler.credit import credit_checks
from scheduler.credit.recompute_credit import (
    Difference,
    Scope,
    UnknownApp,
    compare,
    correct,
    count_owners,
    kind_names,
)
from scheduler.health.checks.check_runs import Outcome
from scheduler.management import check_results
from scheduler.management.base import PlainCommand, plural, require
from scheduler.management.progress import progress_bar
from scheduler.models import CheckRun

#: Maximum number of differences that are printed; ``--json`` prints all.
MAX_SHOWN = credit_checks.MAX_ROWS


class Command(PlainCommand):
    """``recompute_credit [--verify | --apply | --dry-run] [--app NAME] [--averages]``."""

    help = (
        "Compare the credit totals of hosts, accounts, teams and apps with the sums of their "
        "credit entries. Nothing is changed unless --apply is given. The result is stored, and "
        "shown by the page Upkeep of the administration. Exit status: 1 with --verify and "
        "differences, 2 wrong options, otherwise 0."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_mutually_exclusive_group().add_argument
        add("--verify", action="store_true", help="compare only; exit with 1 if anything differs")
        add(
            "--apply",
            "--yes",
            action="store_true",
            help="correct wrong totals and their recent averages",
        )
        add("--dry-run", action="store_true", help="show what --apply would change (the default)")
        parser.add_argument("--app", metavar="NAME", help="only totals of this app")
        parser.add_argument(
            "--averages",
            action="store_true",
            help="with --apply: recompute all recent averages, not only those of wrong totals",
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        may_average = options["apply"] or not options["averages"]
        require(may_average, "--averages needs --apply.\nHint: give both.")
        try:
            scope = Scope.of_app(options["app"]) if options["app"] else Scope()
        except UnknownApp as error:
            raise CommandError(str(error)) from error
        started_at = timezone.now()
        differences, checked = _differences(scope, options)
        # A run that is limited to an app settles no earlier finding.
        checked_names = [] if options["app"] else kind_names()
        check_results.store(
            self.stderr,
            CheckRun.Kind.CREDIT,
            Outcome(checked, checked_names, credit_checks.findings(differences)),
            options=_stored_options(options),
            started_at=started_at,
        )
        self._print(differences, options)
        if differences and options["verify"]:
            sys.exit(1)

    def _print(self, differences: list[Difference], options: dict[str, Any]) -> None:
        if options["json"]:
            facts = [asdict(row) for row in differences]
            answer = {"differences": facts, "corrected": bool(options["apply"])}
            self.stdout.write(json.dumps(answer, indent=2, default=str))
            return
        for row in differences[:MAX_SHOWN]:
            self.stdout.write(f"  {row.name}: total {row.kept}, entries {row.entered}")
        if len(differences) > MAX_SHOWN:
            self.stdout.write(f"  ... and {len(differences) - MAX_SHOWN} more.")
        self.stdout.write(_sentence(len(differences), options))


def _differences(scope: Scope, options: dict[str, Any]) -> tuple[list[Difference], int]:
    """Compare or correct the totals; return the differences and the number of compared totals."""
    checked = 0
    with progress_bar(
        "recompute_credit", MofNCompleteColumn(), total=lambda: count_owners(scope)
    ) as advance:

        def count(number: int) -> None:
            nonlocal checked
            checked += number
            advance(number)

        if options["apply"]:
            walk = correct(scope, averages=options["averages"], progress=count)
        else:
            walk = compare(scope, progress=count)
        return list(walk), checked


def _stored_options(options: dict[str, Any]) -> dict[str, Any]:
    stored = {"applied": bool(options["apply"]), "averages": bool(options["averages"])}
    return stored | ({"app": options["app"]} if options["app"] else {})


def _sentence(count: int, options: dict[str, Any]) -> str:
    if not count:
        return "Every sum of credit equals the sum of its entries."
    what = plural(count, "sum")
    if options["apply"]:
        return f"{what} of credit corrected."
    verb = "differs" if count == 1 else "differ"
    hint = "" if options["verify"] else " Nothing was changed. Hint: use --apply."
    return f"{what} of credit {verb} from the entries.{hint}"
