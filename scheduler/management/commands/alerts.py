"""Say what an operator must know now."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler.health import alerts
from scheduler.management.parsing import PlainCommand


class Command(PlainCommand):
    """``alerts [--json]``: exit status 1 if there are any, for a timer or a monitor."""

    help = "Say what an operator must know now; exit status 1 if there is anything."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the option."""
        parser.add_argument("--json", action="store_true", help="answer with one JSON object")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Read, and print."""
        found = alerts.current(now=timezone.now())
        if options["json"]:
            self.stdout.write(json.dumps({"alerts": [asdict(alert) for alert in found]}))
        else:
            self.stdout.write("\n".join(map(str, found)) or "All is well.")
        if found:
            raise SystemExit(1)
