"""Shows what validating anew would change, and with ``--apply`` asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from daemons.validator.preview import Preview, preview
from scheduler.management.conversation import Answer, Conversation, plural
from scheduler.models import Batch
from scheduler.people.account_lookup import find_account_by_email
from scheduler.results import revalidate
from scheduler.work import batch_reads

#: So many workunits are compared between two looks at the database.
_AT_ONCE = 100
#: As many lines are shown; JSON has them all.
SHOWN = 50


class Command(Conversation):
    """``revalidate APP | --workunit NAME | --batch NAME [--only-invalid] [--apply]``."""

    help = (
        "Compare results of workunits again, after the app's validator or its options changed. "
        "Shows what would change, and changes nothing; with --apply asks the daemons to take the "
        "verdicts back and judge anew. Only what the science has not yet taken. Credit that was "
        "granted stays granted."
    )
    refusals: ClassVar[tuple[type[Exception], ...]] = (
        revalidate.NothingNamed,
        revalidate.UnknownSubject,
        batch_reads.UnknownBatch,
        batch_reads.AmbiguousBatch,
    )

    def ask(self, parser: CommandParser) -> None:
        """Ask which workunits, and whether to do it."""
        parser.add_argument("app", metavar="APP", nargs="?", default="", help="all of an app")
        parser.add_argument("--workunit", metavar="NAME", default="", help="this one")
        parser.add_argument("--batch", metavar="NAME", default="", help="all of a batch")
        parser.add_argument("--submitter", metavar="EMAIL", help="whose batch it is")
        parser.add_argument(
            "--only-invalid",
            action="store_true",
            help="only workunits with a result that was judged invalid",
        )
        parser.add_argument(
            "--at-most", metavar="N", type=int, default=1000, help="compare, or ask for, so many"
        )
        parser.add_argument("--apply", action="store_true", help="do it; else it is only shown")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        """Compare and show, or ask for it."""
        if options["at_most"] < 1:
            raise CommandError("--at-most is less than 1. Hint: leave it out.", returncode=2)
        batch = _batch(options["batch"], options["submitter"])
        chosen = revalidate.choose(
            app=options["app"],
            workunit=options["workunit"],
            batch_id=batch.id if batch else None,
            only_invalid=options["only_invalid"],
        )
        ids = chosen.ids[: options["at_most"]]
        warnings = [
            f"{plural(number, 'workunit')} cannot be validated anew: {revalidate.REASONS[reason]}."
            for reason, number in chosen.refused.items()
        ]
        if left := len(chosen.ids) - len(ids):
            warnings.append(f"{plural(left, 'more workunit')} left out. Hint: raise --at-most.")
        facts = {"refused": chosen.refused, "applied": options["apply"]}
        if options["apply"]:
            asked = revalidate.request(ids, now=timezone.now())
            said = f"Asked to validate anew: {plural(len(asked), 'workunit')}."
            return Answer(said, facts | {"asked": len(asked)}, warnings)
        found = _compared(ids)
        return Answer("\n".join(_lines(found)), facts | _facts(found), warnings)


def _batch(name: str, email: str | None) -> Batch | None:
    if not name:
        return None
    submitter = find_account_by_email(email) if email else None
    if email and submitter is None:
        msg = f"No account has the e-mail address {email!r}. Hint: check its spelling."
        raise CommandError(msg)
    return batch_reads.find(name, submitter)


def _compared(ids: list[int]) -> list[Preview]:
    limits = revalidate.time_limits()
    found: list[Preview] = []
    for start in range(0, len(ids), _AT_ONCE):
        found += preview(ids[start : start + _AT_ONCE], limits, now=timezone.now())
    return found


def _lines(found: list[Preview]) -> list[str]:
    other = [one for one in found if one.is_other or one.trouble]
    lines = [line for one in other[:SHOWN] for line in _lines_of(one)]
    if len(other) > SHOWN:
        lines.append(f"... and {plural(len(other) - SHOWN, 'more workunit')}.")
    changing = sum(one.is_other for one in found)
    lines.append(
        f"{plural(len(found), 'workunit')} compared anew: {changing} would change. "
        "Nothing was changed." + (" Hint: --apply does it." if found else "")
    )
    return lines


def _lines_of(one: Preview) -> list[str]:
    if one.trouble:
        return [f"{one.workunit}: cannot be compared: {one.trouble}"]
    answer = "as before"
    if one.canonical_before != one.canonical_after:
        answer = f"{_result(one.canonical_before)} -> {_result(one.canonical_after)}"
    return [f"{one.workunit}: canonical {answer}"] + [
        f"    {_result(result)}: {before.name} -> {after.name}"
        for result, (before, after) in one.changed.items()
    ]


def _result(number: int | None) -> str:
    return "none" if number is None else f"result {number}"


def _facts(found: list[Preview]) -> dict[str, Any]:
    return {
        "compared": len(found),
        "would_change": sum(one.is_other for one in found),
        "workunits": [
            {
                "workunit": one.workunit,
                "canonical_before": one.canonical_before,
                "canonical_after": one.canonical_after,
                "results": {
                    str(result): [before.name, after.name]
                    for result, (before, after) in one.changed.items()
                },
                "trouble": one.trouble,
            }
            for one in found
            if one.is_other or one.trouble
        ],
    }
