"""Shows what running results said, and tells them something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler.management.conversation import Answer, Conversation
from scheduler.messages import host_messages, trickles

_LONGEST = 100


class Command(Conversation):
    """``trickle list [RESULT] [--limit N] | send RESULT TEXT``."""

    help = (
        "Messages between running results and the server. list shows the newest, of one RESULT if "
        "named; send RESULT TEXT has it told something with the next reply to its host."
    )
    refusals: ClassVar[tuple[type[Exception], ...]] = (trickles.CannotSend,)

    def ask(self, parser: CommandParser) -> None:
        """Ask what to do, and with what."""
        parser.add_argument("action", metavar="ACTION", choices=("list", "send"), help="list, send")
        parser.add_argument("words", metavar="RESULT TEXT", nargs="*", help="list: RESULT or none")
        parser.add_argument(
            "--limit", type=int, default=50, metavar="N", help="list: at most (default: 50)"
        )

    def answer(self, options: Mapping[str, Any]) -> Answer:
        """Do the one thing that is asked for."""
        words = options["words"]
        if options["action"] == "list":
            if len(words) > 1:
                raise CommandError("Hint: write `trickle list [RESULT]`.", returncode=2)
            return _list(words[0] if words else None, max(0, options["limit"]))
        if len(words) != 2:  # noqa: PLR2004 - a result and a text
            hint = "Hint: write `trickle send RESULT TEXT`, the text in quotes."
            raise CommandError(hint, returncode=2)
        sent = trickles.send_down(words[0], words[1], now=timezone.now())
        return Answer(
            f"Result {sent.result_name} is told with the next reply to host {sent.host_id}.",
            {"result": sent.result_name, "host": sent.host_id, "text": sent.text},
        )


def _list(result: str | None, at_most: int) -> Answer:
    found = host_messages.trickles(result=result, at_most=at_most)
    lines = [
        f"{one['at']:%Y-%m-%d %H:%M:%S}  {one['way']:4}  {one['result']}  {_state(one)}  "
        f"{' '.join(one['text'].split())[:_LONGEST]}"
        for one in found
    ]
    return Answer("\n".join(lines) or "Nothing was said.", {"trickles": found})


def _state(one: Mapping[str, Any]) -> str:
    if one["way"] == "down":
        return "sent" if one["done_at"] else "waits"
    return "handled" if one["done_at"] else "waits"
