"""Switches maintenance on and off, or ends the project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler.health import maintenance
from scheduler.management.base import Answer, JsonCommand, require
from scheduler.management.parsing import moment


class Command(JsonCommand):
    """``maintenance on|off|status|end [--message TEXT] [--until TIME] [--scheduler-only]``."""

    help = (
        "Turn volunteers away and pause the daemons (on), resume (off), show the current state "
        "(status), or mark the project as ended (end)."
    )
    refusals = (maintenance.BadMaintenance,)

    def add_options(self, parser: CommandParser) -> None:
        self.add_action(parser, ("on", "off", "status", "end"))
        parser.add_argument("--message", default="", help="additional message for volunteers")
        parser.add_argument("--until", type=moment, metavar="TIME", help="expected end (UTC)")
        only = parser.add_mutually_exclusive_group()
        only.add_argument("--scheduler-only", action="store_true", help="do not pause the daemons")
        only.add_argument("--daemons", action="store_true", help="pause only the daemons")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        action = options["action"]
        require(
            action in ("on", "end") or not (options["message"] or options["until"]),
            f"--message and --until are not options of `maintenance {action}`. Hint: use them with "
            "`on` or `end`.",
        )
        if action == "off":
            was_on = maintenance.end() is not None
            sentence = "Maintenance is off." if was_on else "Maintenance was off already."
            return Answer(sentence, {"on": False, "changed": was_on})
        if action == "on":
            maintenance.begin(
                message=options["message"],
                until=options["until"],
                scheduler=not options["daemons"],
                daemons=not options["scheduler_only"],
                now=timezone.now(),
            )
        elif action == "end":
            maintenance.end_project(message=options["message"], now=timezone.now())
        return _status(maintenance.current())


def _status(current: maintenance.Maintenance | None) -> Answer:
    if current is None:
        return Answer("Maintenance is off.", {"on": False})
    end = current.until and current.until.isoformat()
    times = {"since": current.since.isoformat(), "until": end}
    facts = {"on": True} | asdict(current) | times
    if current.ended:
        return Answer(
            "The project has ended: reports are accepted, no work is sent. "
            "`maintenance off` undoes this.",
            facts,
        )
    stopped = {
        (True, True): "volunteers are turned away and the daemons wait",
        (True, False): "volunteers are turned away, the daemons continue",
        (False, True): "the daemons wait, volunteers are served",
    }[current.scheduler, current.daemons]
    until = f", until about {current.until:%Y-%m-%d %H:%M} UTC" if current.until else ""
    return Answer(
        f"Maintenance is on since {current.since:%Y-%m-%d %H:%M} UTC{until}: {stopped}. "
        "`maintenance off` ends it.",
        facts,
    )
