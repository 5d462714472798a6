"""Cancels, holds or releases workunits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler.management.conversation import Answer, Conversation, plural
from scheduler.management.people import account_of
from scheduler.work import cancel


class Command(Conversation):
    """``cancel_work [NAME...] [--id ID...] [--batch BATCH] [--hold | --release]``."""

    help = "Cancel workunits by name, id or batch; or hold them, or release them."
    refusals: ClassVar[tuple[type[Exception], ...]] = (
        cancel.WorkunitsNotFound,
        cancel.AmbiguousBatch,
        cancel.NothingNamed,
    )

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
        named: dict[str, Any] = {
            "names": options["names"],
            "ids": options["ids"],
            "batch": options["batch"],
            "submitter": self._submitter(options["submitter"]),
            "now": timezone.now(),
        }
        if options["hold"]:
            done, verb = cancel.hold(**named), "Held"
        elif options["release"]:
            done, verb = cancel.release(**named), "Released"
        else:
            done = cancel.cancel(**named, reason=options["reason"])
            verb = "Cancellation requested"
        others = [
            f"{count} {state}"
            for count, state in (
                (done.already, "were so already"),
                (done.finished, "are finished"),
                (done.impossible, "wait for others"),
            )
            if count
        ]
        rest = f"; of the others {', '.join(others)}" if others else ""
        return Answer(
            f"{verb}: {plural(done.changed, 'workunit')}{rest}.",
            {
                "changed": done.changed,
                "already": done.already,
                "finished": done.finished,
                "impossible": done.impossible,
            },
        )

    @staticmethod
    def _submitter(email: str | None) -> Any:
        return None if email is None else account_of(email)
