"""Switches the guard triggers, which reject illegal moves, on or off."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from scheduler.management.base import PlainCommand
from scheduler.sql import guard_triggers


class Command(PlainCommand):
    """``guard_trigger on|off|status``."""

    help = "Switch on or off the database triggers that reject moves that are not in the law."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("what", choices=("on", "off", "status"), help="what to do")

    def handle(self, *_args: Any, what: str, **_options: Any) -> None:
        if what == "on":
            guard_triggers.install()
        elif what == "off":
            guard_triggers.remove()
        state = "on" if guard_triggers.is_installed() else "off"
        self.stdout.write(f"The guard triggers are {state}.")
