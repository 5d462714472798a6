"""Prints the timeline of a workunit or result, and the reasons for its state."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder
from django.utils import timezone

from scheduler.management.base import PlainCommand
from scheduler.work.explain import Explanation, UnknownName, explanation_of


class Command(PlainCommand):
    """``explain NAME [--json]``."""

    help = "Print the timeline of a workunit or result, and the reasons for its state."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="name of a workunit or a result")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            explanation = explanation_of(options["name"], now=timezone.now())
        except UnknownName as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(asdict(explanation), cls=DjangoJSONEncoder, indent=2))
        else:
            self.stdout.write(render(explanation))


def render(explanation: Explanation) -> str:
    """Return an explanation as text."""
    lines = [f"{explanation.kind} {explanation.name}"]
    if explanation.kind == "result":
        lines[0] += f" of workunit {explanation.workunit}"
    subjects = max((len(step.subject) for step in explanation.timeline), default=0)
    lines += [
        f"  {step.at:%Y-%m-%d %H:%M:%S}  {step.subject:<{subjects}}  "
        f"{step.axis}: {step.source} → {step.target}  ({step.because}, {step.by})"
        for step in explanation.timeline
    ]
    if not explanation.ledger_is_on:
        lines.append("  The ledger is off (LEDGER=false); moves made while it is off are missing.")
    elif not explanation.timeline:
        lines.append(f"  There are no moves of this {explanation.kind}: the ledger was off.")
    lines += [f"- {reason}" for reason in explanation.reasons]
    if explanation.may_happen:
        lines.append("possible next moves:")
        lines += [f"  {move}" for move in explanation.may_happen]
    return "\n".join(lines)
