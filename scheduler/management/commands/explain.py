"""Says where a workunit or result is, how it came there, and what it waits for."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder
from django.utils import timezone

from scheduler.management.parsing import PlainCommand
from scheduler.work.explain import Explanation, UnknownName, explanation_of


class Command(PlainCommand):
    """Explain one workunit or result."""

    help = "Say where a workunit or result is, how it came there, and what it waits for."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument("name", metavar="NAME", help="name of a workunit or a result")
        parser.add_argument("--json", action="store_true", help="answer in JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Read, and print."""
        try:
            found = explanation_of(options["name"], now=timezone.now())
        except UnknownName as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(asdict(found), cls=DjangoJSONEncoder, indent=2))
        else:
            self.stdout.write(render(found))


def render(found: Explanation) -> str:
    """Put an explanation on a page."""
    lines = [f"{found.kind} {found.name}"]
    if found.kind == "result":
        lines[0] += f" of workunit {found.workunit}"
    subjects = max((len(step.subject) for step in found.timeline), default=0)
    lines += [
        f"  {step.at:%Y-%m-%d %H:%M:%S}  {step.subject:<{subjects}}  "
        f"{step.axis}: {step.source} → {step.target}  ({step.because}, {step.by})"
        for step in found.timeline
    ]
    if not found.ledger_is_on:
        lines.append("  The ledger is off (LEDGER=false): moves made since are not in this list.")
    elif not found.timeline:
        lines.append("  The ledger has no moves of it: they were made while the ledger was off.")
    lines += [f"- {reason}" for reason in found.reasons]
    if found.may_happen:
        lines.append("next may come:")
        lines += [f"  {move}" for move in found.may_happen]
    return "\n".join(lines)
