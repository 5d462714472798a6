"""Runs an app's validator on files and shows the verdicts."""

from __future__ import annotations

import io
import json
import sys
from argparse import ArgumentTypeError
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from rich.console import Console
from rich.table import Table

from daemons.management import trying
from daemons.management.commands._daemon import seconds
from scheduler.management.base import PlainCommand
from scheduler.models import App


class Command(PlainCommand):
    help = "Run an app's validator on files, exactly as the daemon would."
    parser_options = {"epilog": "Exit status: 0 a quorum agrees, 1 it does not, 2 wrong options."}

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("app", metavar="APP", help="the app's name")
        parser.add_argument(
            "files",
            metavar="FILE",
            nargs="+",
            type=Path,
            help="an output of a result, or the folder of its outputs",
        )
        for name, default, what in (
            ("--outputs", 1, "files per result"),
            ("--quorum", 2, "results that must agree"),
        ):
            text = f"the number of {what} (default {default})"
            parser.add_argument(name, type=at_least_one, default=default, metavar="N", help=text)
        parser.add_argument(
            "--validator", metavar="NAME", help="the validator (default: that of the app)"
        )
        parser.add_argument(
            "--options", metavar="JSON", help="the validator's options (default: those of the app)"
        )
        parser.add_argument(
            "--time-limit",
            type=seconds,
            metavar="SECONDS",
            help="the time limit (default: that of the app)",
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            trial, listed_by = _trial(options)
            outcome = trying.run(trial)
        except trying.UsageError as error:
            raise CommandError(str(error), returncode=2) from error
        if options["json"]:
            self.stdout.write(json.dumps(facts(trial, outcome)))
        else:
            self.stdout.write(page(trial, outcome, listed_by))
        if outcome.canonical is None:
            sys.exit(1)


def at_least_one(text: str) -> int:
    """Parse an integer, which is at least 1; raises `ArgumentTypeError`."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a number. Hint: use a whole number from 1.")
    return int(text)


def _trial(options: dict[str, Any]) -> tuple[trying.Trial, str]:
    app = App.objects.filter(name=options["app"]).first()
    if app is None:
        names = ", ".join(App.objects.order_by("name").values_list("name", flat=True)[:20])
        hint = f"the apps are {names}." if names else "publish one with `manage.py publish_app`."
        raise trying.UsageError(f"There is no app {options['app']!r}. Hint: {hint}")
    results = trying.results_of(options["files"], outputs=options["outputs"])
    listed_by, listed = trying.listed_outputs(app, len(next(iter(results.values()))))
    own_options = {} if options["validator"] else app.validator_options
    limit = options["time_limit"]
    trial = trying.Trial(
        validator=options["validator"] or app.validator,
        options=trying.parse_options(options["options"]) if options["options"] else own_options,
        min_quorum=options["quorum"],
        time_limit=timedelta(seconds=limit) if limit else app.science_time_limit,
        results=results,
        listed=listed,
    )
    return trial, listed_by


def facts(trial: trying.Trial, outcome: trying.Outcome) -> dict[str, Any]:
    """Return the JSON report of a trial."""
    return {
        "validator": trial.validator,
        "options": trial.options,
        "quorum": trial.min_quorum,
        "results": list(outcome.names),
        "agreeing": [
            [outcome.names[number - 1] for number in pair]
            for pair in sorted(outcome.answer.agreeing)
        ],
        "verdicts": outcome.verdicts,
        "canonical": outcome.canonical,
        "failure": outcome.failure,
        "traceback": outcome.traceback,
        "seconds": round(outcome.seconds, 3),
    }


def page(trial: trying.Trial, outcome: trying.Outcome, listed_by: str) -> str:
    """Return the text report of a trial."""
    source = f"listed as in workunit {listed_by}" if listed_by else "named after the files"
    lines = [f"{trial.validator} on {len(outcome.names)} results, outputs {source}:"]
    if outcome.failure:
        lines += [f"The validator failed: {outcome.failure}", outcome.traceback.rstrip()]
    else:
        lines += [_table(outcome), _sentence(trial, outcome)]
    return "\n".join(line for line in lines if line)


def _table(outcome: trying.Outcome) -> str:
    table = Table(box=None, pad_edge=False, header_style="")
    for heading in ("#", "result", *map(str, range(1, len(outcome.names) + 1)), "verdict"):
        table.add_column(heading, overflow="fold")
    for number, name in enumerate(outcome.names, 1):
        marks = [_mark(outcome, number, other) for other in range(1, len(outcome.names) + 1)]
        table.add_row(str(number), name, *marks, outcome.verdicts[name])
    console = Console(file=io.StringIO(), width=120, no_color=True, markup=False, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _mark(outcome: trying.Outcome, first: int, second: int) -> str:
    if first == second or {first, second} & outcome.answer.bad.keys():
        return "·"
    return "✓" if outcome.answer.agree(first, second) else "✗"


def _sentence(trial: trying.Trial, outcome: trying.Outcome) -> str:
    took = f"({outcome.seconds:.2f} s)"
    if outcome.canonical is None:
        quorum = f"No quorum of {trial.min_quorum} agrees"
        return f"{quorum}: the daemons would make more results {took}."
    valid = sum(verdict.startswith("valid") for verdict in outcome.verdicts.values())
    return f"{valid} agree, and {outcome.canonical} is canonical {took}."
