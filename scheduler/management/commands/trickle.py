"""Lists the messages of running results (trickles), and sends messages to results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler.management.base import Answer, JsonCommand, require
from scheduler.messages import host_messages, trickles

_MAX_SHOWN_CHARACTERS = 100


class Command(JsonCommand):
    """``trickle list [RESULT] [--limit N] | send RESULT TEXT``."""

    help = (
        "List and send messages between running results and the server. list [RESULT] shows the "
        "newest; send RESULT TEXT sends a message with the next reply to its host."
    )
    refusals = (trickles.CannotSend,)

    def add_options(self, parser: CommandParser) -> None:
        self.add_action(parser, ("list", "send"))
        add = parser.add_argument
        add("words", metavar="RESULT TEXT", nargs="*", help="name of a result, and a text to send")
        add(
            "--limit",
            type=int,
            default=50,
            metavar="N",
            help="list: maximum number of messages (default: 50)",
        )

    def answer(self, options: Mapping[str, Any]) -> Answer:
        words = options["words"]
        if options["action"] == "list":
            hint = "Hint: write `trickle list [RESULT]`."
            require(len(words) <= 1, f"There are too many arguments. {hint}")
            return _list(words[0] if words else None, max(0, options["limit"]))
        hint = "Hint: write `trickle send RESULT TEXT`, with the text in quotes."
        require(len(words) == 2, f"A result and a text are needed. {hint}")  # noqa: PLR2004
        sent = trickles.send_down(words[0], words[1], now=timezone.now())
        return Answer(
            f"{sent.result_name} gets the message with the next reply to host {sent.host_id}.",
            {"result": sent.result_name, "host": sent.host_id, "text": sent.text},
        )


def _list(result: str | None, at_most: int) -> Answer:
    messages = host_messages.trickles(result=result, limit=at_most)
    lines = [
        f"{row['at']:%Y-%m-%d %H:%M:%S}  {row['way']:4}  {row['result']}  {_state(row)}  "
        f"{' '.join(row['text'].split())[:_MAX_SHOWN_CHARACTERS]}"
        for row in messages
    ]
    return Answer("\n".join(lines) or "There are no messages.", {"trickles": messages})


def _state(row: Mapping[str, Any]) -> str:
    if not row["done_at"]:
        return "waits"
    return "sent" if row["way"] == "down" else "handled"
