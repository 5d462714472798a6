"""Prints the current alerts for operators."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler.health import alerts
from scheduler.management.base import PlainCommand


class Command(PlainCommand):
    """``alerts [--json]``."""

    help = "Print the current alerts for operators. Exit status: 0 no alerts, 1 alerts."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *_args: Any, **options: Any) -> None:
        current = alerts.current(now=timezone.now())
        if options["json"]:
            self.stdout.write(json.dumps({"alerts": [asdict(alert) for alert in current]}))
        else:
            self.stdout.write("\n".join(map(str, current)) or "All is well.")
        if current:
            raise SystemExit(1)
