"""Lists, shows, retries and drops parked subjects of science code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler.health import parked as operations
from scheduler.health.parked import Failing
from scheduler.management.base import Answer, JsonCommand, plural, require

_ACTIONS = ("list", "show", "retry", "drop")
#: Maximum number of lines that `list` prints; ``--json`` prints all.
MAX_SHOWN = 50


class Command(JsonCommand):
    """``parked [list] | show ID | retry ID...|--app APP|--all | drop ID...``."""

    help = (
        "Manage parked subjects: science code failed on them too often, and the daemons skip them. "
        "list [--app APP] [--troubled]; show ID, with the traceback; retry ID... or --app APP or "
        "--all; drop ID..., which gives up the work."
    )
    refusals = (operations.NotParked, operations.NothingNamed)

    def add_options(self, parser: CommandParser) -> None:
        actions = f"{', '.join(_ACTIONS)} (default: list)"
        add = parser.add_argument
        add("action", metavar="ACTION", nargs="?", default="list", choices=_ACTIONS, help=actions)
        add("ids", metavar="ID", nargs="*", default=[], type=int, help="ids from `list`")
        add("--app", default="", help="list, retry: only subjects of this app")
        add("--all", action="store_true", help="retry: all parked subjects")
        add("--troubled", action="store_true", help="list: also failed subjects, not parked yet")
        add("--reason", default="", help="drop: stored with cancelled workunits")
        add("--dry-run", action="store_true", help="only print what would be done")
        add("--yes", action="store_true", help="drop: do not prompt")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        action, ids = options["action"], options["ids"]
        if action == "list":
            return _list(options["app"], troubled=options["troubled"])
        if action == "show":
            require(len(ids) == 1, "Give one id. Hint: `parked show ID`.")
            return _show(operations.find(ids=ids)[0])
        return _retry(options) if action == "retry" else self._drop(options)

    def _drop(self, options: Mapping[str, Any]) -> Answer:
        hint = "Hint: `parked list --app APP` shows the ids."
        require(not (options["app"] or options["all"]), f"`drop` takes only ids. {hint}")
        arguments = {"ids": options["ids"], "reason": options["reason"], "now": timezone.now()}
        plan = operations.drop(**arguments, dry_run=True)
        if options["dry_run"]:
            return _dropped(plan, "would be ", done=False)
        if plan.changed and not options["yes"]:
            self.stderr.write(_dropped(plan, "will be ", done=False).sentence)
            if not _agreed():
                raise CommandError("Nothing was dropped. Hint: answer yes, or add --yes.")
        return _dropped(operations.drop(**arguments), "", done=True)


def _list(app: str, *, troubled: bool) -> Answer:
    subjects = operations.find(app=app, troubled=troubled)
    facts = {"parked": [_facts(subject) for subject in subjects]}
    lines = [
        f"{row.id:>6}  {row.stage.label.lower():<10}  {row.app}  {row.subject}  "
        f"{plural(row.failures + row.transients, 'failure')}"
        f"{'' if row.parked_at else ', still tried'}: {row.reason}"
        for row in subjects[:MAX_SHOWN]
    ]
    if len(subjects) > MAX_SHOWN:
        lines.append(f"... and {len(subjects) - MAX_SHOWN} more. Hint: --json prints all.")
    return Answer("\n".join(lines) or "Nothing is parked.", facts)


def _show(row: Failing) -> Answer:
    since = f"parked at {row.parked_at:%Y-%m-%d %H:%M:%S}" if row.parked_at else "still tried"
    transient = f", and {row.transients} transient" if row.transients else ""
    sentence = (
        f"{row.stage.label} {row.subject} of app {row.app}: {plural(row.failures, 'failure')}"
        f"{transient}; the last at {row.failed_at:%Y-%m-%d %H:%M:%S}; {since}."
    )
    return Answer(f"{sentence}\n\n{row.error.rstrip()}", _facts(row) | {"error": row.error})


def _retry(options: Mapping[str, Any]) -> Answer:
    if options["dry_run"]:
        is_selected = options["ids"] or options["app"] or options["all"]
        nothing = "Nothing is selected. Hint: give ids, --app APP, or --all."
        require(is_selected, nothing, returncode=1)
        subjects = operations.find(ids=options["ids"], app=options["app"])
        sentence = f"{plural(len(subjects), 'subject')} would be tried again."
    else:
        subjects = operations.retry(
            ids=options["ids"], app=options["app"], everything=options["all"], now=timezone.now()
        )
        sentence = f"{plural(len(subjects), 'subject')} will be tried again at once."
    facts = {"retried": [subject.id for subject in subjects], "dry_run": options["dry_run"]}
    return Answer(sentence, facts)


def _dropped(plan: operations.Dropped, verb: str, *, done: bool) -> Answer:
    parts = [
        f"{plural(len(some), noun)} {verb}{what}"
        for some, noun, what in (
            (plan.cancelled, "workunit", "cancelled, as its results cannot be validated"),
            (plan.given_up, "workunit", "counted as assimilated without science code"),
            (plan.trickles, "trickle", "counted as handled"),
        )
        if some
    ]
    warnings = [
        f"{row.subject} has a canonical result, so it cannot be cancelled and stays parked. "
        "Hint: fix the validator and retry."
        for row in plan.answered
    ] + [
        f"The generator of {row.subject} stays parked. Hint: clear the app's generator instead."
        for row in plan.generators
    ]
    sentence = "; ".join(parts) + "." if parts else "Nothing can be dropped."
    rows_by_outcome = {
        "cancelled": plan.cancelled,
        "given_up": plan.given_up,
        "trickles": plan.trickles,
        "refused": [*plan.answered, *plan.generators],
    }
    facts = {name: [row.subject for row in rows] for name, rows in rows_by_outcome.items()}
    return Answer(sentence, {"done": done} | facts, warnings)


def _facts(row: Failing) -> dict[str, Any]:
    return {
        "id": row.id,
        "stage": row.stage.label.lower(),
        "subject": row.subject,
        "app": row.app,
        "failures": row.failures,
        "transients": row.transients,
        "failed_at": row.failed_at,
        "parked_at": row.parked_at,
        "reason": row.reason,
    }


def _agreed() -> bool:
    try:
        return input("Type yes to drop them: ").strip().lower() == "yes"
    except EOFError:
        return False
