"""Shows what a revalidation would change, and requests it with ``--apply``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from daemons.validator.preview import Preview, preview
from scheduler.management.base import Answer, JsonCommand, plural, require
from scheduler.management.parsing import moment
from scheduler.models import Batch
from scheduler.people.accounts import find_account_by_email
from scheduler.results import revalidate
from scheduler.work import batch_reads

#: The number of workunits that one query reads.
_BATCH_SIZE = 100
#: The maximum number of workunits in the text output; JSON output has no limit.
MAX_SHOWN = 50


class Command(JsonCommand):
    """Implements ``revalidate APP | --workunit NAME | --batch NAME [FILTER] [--apply]``."""

    help = (
        "Compare results of workunits again, after the app's validator or its options changed. "
        "Shows what would change, and changes nothing; with --apply, requests that the daemons "
        "reset the verdicts and judge again. Works for workunits that are not assimilated yet. "
        "Granted credit is kept."
    )
    refusals = (
        revalidate.BadPeriod,
        revalidate.NothingNamed,
        revalidate.UnknownSubject,
        batch_reads.UnknownBatch,
        batch_reads.AmbiguousBatch,
    )

    def add_options(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("app", metavar="APP", nargs="?", default="", help="all workunits of an app")
        add("--workunit", metavar="NAME", default="", help="one workunit")
        add("--batch", metavar="NAME", default="", help="all workunits of a batch")
        add("--submitter", metavar="EMAIL", help="the submitter of the batch")
        add(
            "--only-invalid",
            action="store_true",
            help="only workunits with a result that was judged invalid",
        )
        for name, word in (("--since", "at this time or later"), ("--until", "before this time")):
            add(
                name,
                metavar="TIME",
                type=moment,
                help=f"only workunits with a result that was reported {word} (UTC)",
            )
        add(
            "--at-most",
            metavar="N",
            type=int,
            default=1000,
            help="the maximum number of workunits (default 1000)",
        )
        add("--apply", action="store_true", help="request the revalidation instead of a preview")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        require(
            options["at_most"] >= 1, "--at-most is less than 1. Hint: use a whole number from 1."
        )
        batch = _batch(options["batch"], options["submitter"])
        chosen = revalidate.choose(
            app=options["app"],
            workunit=options["workunit"],
            batch_id=batch.id if batch else None,
            results=revalidate.ResultFilter(
                only_invalid=options["only_invalid"],
                since=options["since"],
                until=options["until"],
            ),
        )
        ids = chosen.ids[: options["at_most"]]
        warnings = [
            f"{plural(number, 'workunit')} cannot be revalidated: {revalidate.REASONS[reason]}."
            for reason, number in chosen.refused.items()
        ]
        if left := len(chosen.ids) - len(ids):
            warnings.append(f"{plural(left, 'more workunit')} left out. Hint: raise --at-most.")
        facts = {"refused": chosen.refused, "applied": options["apply"]}
        if options["apply"]:
            requested_ids = revalidate.request(ids, now=timezone.now())
            text = f"Revalidation requested: {plural(len(requested_ids), 'workunit')}."
            return Answer(text, facts | {"asked": len(requested_ids)}, warnings)
        previews = _compared(ids)
        return Answer("\n".join(_lines(previews)), facts | _facts(previews), warnings)


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
    previews: list[Preview] = []
    for start in range(0, len(ids), _BATCH_SIZE):
        previews += preview(ids[start : start + _BATCH_SIZE], limits, now=timezone.now())
    return previews


def _lines(previews: list[Preview]) -> list[str]:
    other = [entry for entry in previews if entry.is_other or entry.trouble]
    lines = [line for entry in other[:MAX_SHOWN] for line in _lines_of(entry)]
    if len(other) > MAX_SHOWN:
        lines.append(f"... and {plural(len(other) - MAX_SHOWN, 'more workunit')}.")
    changing = sum(entry.is_other for entry in previews)
    lines.append(
        f"{plural(len(previews), 'workunit')} compared: {changing} would change. "
        "Nothing was changed." + (" Hint: add --apply to request it." if previews else "")
    )
    return lines


def _lines_of(entry: Preview) -> list[str]:
    if entry.trouble:
        return [f"{entry.workunit}: cannot be compared: {entry.trouble}"]
    answer = "as before"
    if entry.canonical_before != entry.canonical_after:
        answer = f"{_result(entry.canonical_before)} -> {_result(entry.canonical_after)}"
    return [f"{entry.workunit}: canonical {answer}"] + [
        f"    {_result(result)}: {before.name} -> {after.name}"
        for result, (before, after) in entry.changed.items()
    ]


def _result(number: int | None) -> str:
    return "none" if number is None else f"result {number}"


def _facts(previews: list[Preview]) -> dict[str, Any]:
    return {
        "compared": len(previews),
        "would_change": sum(entry.is_other for entry in previews),
        "workunits": [
            {
                "workunit": entry.workunit,
                "canonical_before": entry.canonical_before,
                "canonical_after": entry.canonical_after,
                "results": {
                    str(result): [before.name, after.name]
                    for result, (before, after) in entry.changed.items()
                },
                "trouble": entry.trouble,
            }
            for entry in previews
            if entry.is_other or entry.trouble
        ],
    }
