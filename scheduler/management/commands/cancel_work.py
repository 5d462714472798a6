"""Cancels, holds or releases workunits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler.management.base import Answer, JsonCommand, optional_account, plural
from scheduler.work import control


class Command(JsonCommand):
    """``cancel_work [NAME...] [--id ID...] [--batch BATCH] [--hold | --release]``."""

    help = "Cancel, hold or release workunits by name, id or batch."
    refusals = (control.WorkunitsNotFound, control.AmbiguousBatch, control.NothingNamed)

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("names", metavar="NAME", nargs="*")
        parser.add_argument("--id", dest="ids", metavar="ID", type=int, nargs="+", default=[])
        parser.add_argument("--batch", help="all workunits of a batch")
        parser.add_argument("--submitter", metavar="EMAIL", help="submitter of the batch")
        parser.add_argument("--reason", default="", help="stored with the cancelled workunits")
        instead = parser.add_mutually_exclusive_group()
        instead.add_argument("--hold", action="store_true", help="hold instead of cancelling")
        instead.add_argument("--release", action="store_true", help="release held workunits")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        named = {name: options[name] for name in ("names", "ids", "batch")}
        named |= {"submitter": optional_account(options["submitter"]), "now": timezone.now()}
        if options["hold"]:
            done, verb = control.hold(**named), "Held"
        elif options["release"]:
            done, verb = control.release(**named), "Released"
        else:
            done = control.cancel(**named, reason=options["reason"])
            verb = "Cancellation requested"
        others = [
            f"{count} {state}"
            for count, state in (
                (done.already, "already in this state"),
                (done.finished, "finished"),
                (done.impossible, "waiting for other workunits"),
            )
            if count
        ]
        unchanged = f"; unchanged: {', '.join(others)}" if others else ""
        return Answer(f"{verb}: {plural(done.changed, 'workunit')}{unchanged}.", asdict(done))
