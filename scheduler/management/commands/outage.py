"""Lists, adds and removes outages of the server."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler.management.base import Answer, JsonCommand, plural, require
from scheduler.management.parsing import moment
from scheduler.models import Outage
from scheduler.results import outages as operations

#: The arguments of each action.
_ACTIONS = {"list": (), "add": ("FROM", "TO"), "remove": ("ID",)}


class Command(JsonCommand):
    """``outage list | add FROM TO [--reason WHY] | remove ID``."""

    help = (
        "Manage outages, in which volunteers could not reach the server. Deadlines are extended by "
        "the length of an outage. Outages of the web server and the database are detected; add "
        "other outages, such as those of a router. list; add FROM TO; remove ID."
    )
    refusals = (operations.BadOutage,)

    def add_options(self, parser: CommandParser) -> None:
        self.add_action(parser, _ACTIONS)
        parser.add_argument(
            "words", metavar="FROM TO | ID", nargs="*", help="times (UTC), or an id from `list`"
        )
        parser.add_argument("--reason", default="", help="add: stored with the outage")
        parser.add_argument("--dry-run", action="store_true", help="only print what would be done")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        action, words = options["action"], options["words"]
        hint = f"Hint: write `outage {' '.join((action, *_ACTIONS[action]))}`."
        require(len(words) == len(_ACTIONS[action]), f"The number of arguments is wrong. {hint}")
        if action == "list":
            return _list()
        if action == "add":
            began_at, ended_at = (_moment(word) for word in words)
            return _add(began_at, ended_at, options["reason"], dry_run=options["dry_run"])
        return _remove(words[0], dry_run=options["dry_run"])


def _list() -> Answer:
    outages = [_facts(outage) for outage in operations.recent()]
    lines = [
        f"{row['id']}: {row['from']} to {row['to']}, {row['state']}"
        + (f" ({row['reason']})" if row["reason"] else "")
        for row in outages
    ]
    return Answer("\n".join(lines) or "There were no outages.", {"outages": outages})


def _add(began_at: datetime, ended_at: datetime, reason: str, *, dry_run: bool) -> Answer:
    now = timezone.now()
    operations.check(began_at, ended_at, now=now)
    result_count = operations.concerned(began_at, ended_at)
    results = plural(result_count, "result") + " in progress"
    facts = {"from": began_at, "to": ended_at, "results": result_count, "dry_run": dry_run}
    if dry_run:
        text = f"Would move the deadlines of {results} by up to {ended_at - began_at}."
        return Answer(text, facts)
    outage = operations.add(began_at, ended_at, reason=reason, now=now)
    return Answer(
        f"Recorded outage {outage.pk}: the timeout checker moves the deadlines of {results}.",
        {**facts, "id": outage.pk},
    )


def _remove(word: str, *, dry_run: bool) -> Answer:
    require(word.isdecimal(), f"{word!r} is not an id. Hint: `outage list` shows the ids.")
    if dry_run:
        outage = operations.find(int(word))
    else:
        outage = operations.remove(int(word), now=timezone.now())
    if outage is None:
        msg = f"There is no outage {word}. Hint: see `manage.py outage list`."
        raise operations.BadOutage(msg)
    verb = "Would remove" if dry_run else "Removed"
    was_applied = outage.applied_at is not None or outage.applied_up_to > 0
    rest = "; deadlines that it moved are not moved back" if was_applied else ""
    return Answer(
        f"{verb} outage {word}{rest}.",
        {"id": int(word), "had_moved_deadlines": was_applied, "dry_run": dry_run},
    )


def _facts(outage: Outage) -> dict[str, Any]:
    return {
        "id": outage.pk,
        "from": f"{outage.began_at:%Y-%m-%d %H:%M:%S}",
        "to": f"{outage.ended_at:%Y-%m-%d %H:%M:%S}",
        "reason": outage.reason,
        "state": "deadlines moved" if outage.applied_at else "deadlines are still to be moved",
    }


def _moment(text: str) -> datetime:
    try:
        return moment(text)
    except ArgumentTypeError as error:
        raise CommandError(str(error), returncode=2) from error
