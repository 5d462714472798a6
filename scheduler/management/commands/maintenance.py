"""Switch maintenance on and off, or end the project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler.health import maintenance
from scheduler.management.conversation import Answer, Conversation, moment


class Command(Conversation):
    """``maintenance on|off|status|end [--message TEXT] [--until TIME] [--scheduler-only]``."""

    help = (
        "Turn volunteers away and have the daemons wait (on), serve them again (off), say what is "
        "on (status), or say that the project is over (end)."
    )
    refusals: ClassVar[tuple[type[Exception], ...]] = (maintenance.BadMaintenance,)

    def ask(self, parser: CommandParser) -> None:
        """Ask what to switch."""
        actions = ("on", "off", "status", "end")
        parser.add_argument("action", metavar="ACTION", choices=actions, help=", ".join(actions))
        parser.add_argument("--message", default="", help="what volunteers read besides")
        parser.add_argument("--until", type=moment, metavar="TIME", help="its expected end (UTC)")
        only = parser.add_mutually_exclusive_group()
        only.add_argument("--scheduler-only", action="store_true", help="the daemons go on")
        only.add_argument("--daemons", action="store_true", help="only the daemons wait")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        """Switch, and say how it is now."""
        action = options["action"]
        if action in ("off", "status") and (options["message"] or options["until"]):
            msg = f"`maintenance {action}` takes no such option. Hint: they belong to `on`."
            raise CommandError(msg, returncode=2)
        if action == "off":
            was_on = maintenance.end() is not None
            said = "Maintenance is off." if was_on else "Maintenance was off already."
            return Answer(said, {"on": False, "changed": was_on})
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


def _status(found: maintenance.Maintenance | None) -> Answer:
    if found is None:
        return Answer("Maintenance is off.", {"on": False})
    facts = {
        "on": True,
        "since": found.since.isoformat(),
        "until": found.until and found.until.isoformat(),
        "message": found.message,
        "scheduler": found.scheduler,
        "daemons": found.daemons,
        "ended": found.ended,
    }
    if found.ended:
        return Answer(
            "The project has ended: reports are taken, no work is sent. "
            "`maintenance off` takes it back.",
            facts,
        )
    stopped = {
        (True, True): "volunteers are turned away and the daemons wait",
        (True, False): "volunteers are turned away, the daemons go on",
        (False, True): "the daemons wait, volunteers are served",
    }[found.scheduler, found.daemons]
    until = f", until about {found.until:%Y-%m-%d %H:%M} UTC" if found.until else ""
    return Answer(
        f"Maintenance is on since {found.since:%Y-%m-%d %H:%M} UTC{until}: {stopped}. "
        "`maintenance off` ends it.",
        facts,
    )
