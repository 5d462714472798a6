"""Switches the guard on or off: the database itself refuses unlawful moves."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from scheduler.management.parsing import PlainCommand
from scheduler.sql import guard


class Command(PlainCommand):
    """Switch the guard triggers."""

    help = "Switch the triggers by which the database refuses moves that the law does not name."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument("what", choices=("on", "off", "status"), help="what to do")

    def handle(self, *_args: Any, what: str, **_options: Any) -> None:
        """Switch, and say how it is now."""
        if what == "on":
            guard.install()
        elif what == "off":
            guard.remove()
        state = "on" if guard.is_installed() else "off"
        self.stdout.write(f"The guard triggers are {state}.")
