"""Shows what science code failed on too often, tries it again, or gives it up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler.health import parked as operations
from scheduler.health import parked_science
from scheduler.health.parked_science import Failing
from scheduler.management.conversation import Answer, Conversation, plural

_ACTIONS = ("list", "show", "retry", "drop")
#: As many lines `list` shows; JSON has them all.
SHOWN = 50


class Command(Conversation):
    """``parked [list] | show ID | retry ID...|--app APP|--all | drop ID...``."""

    help = (
        "What science code failed on too often is parked, and the daemons go on without it. "
        "list [--app APP] [--troubled]; show ID, with the traceback; retry ID... or --app APP or "
        "--all; drop ID..., which gives the work up."
    )
    refusals: ClassVar[tuple[type[Exception], ...]] = (
        operations.NotParked,
        operations.NothingNamed,
    )

    def ask(self, parser: CommandParser) -> None:
        """Ask what to do, and with what."""
        actions = f"{', '.join(_ACTIONS)} (default: list)"
        parser.add_argument(
            "action", metavar="ACTION", nargs="?", default="list", choices=_ACTIONS, help=actions
        )
        parser.add_argument(
            "ids", metavar="ID", nargs="*", default=[], type=int, help="as `list` numbers them"
        )
        parser.add_argument("--app", default="", help="list, retry: what is parked of this app")
        parser.add_argument("--all", action="store_true", help="retry: all that is parked")
        parser.add_argument(
            "--troubled", action="store_true", help="list: also what failed and is still tried"
        )
        parser.add_argument("--reason", default="", help="drop: kept with cancelled workunits")
        parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
        parser.add_argument("--yes", action="store_true", help="drop: do not ask")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        """Do the one thing that is asked for."""
        action, ids = options["action"], options["ids"]
        if action == "list":
            return _list(options["app"], troubled=options["troubled"])
        if action == "show":
            if len(ids) != 1:
                raise CommandError("Name one number. Hint: `parked show ID`.", returncode=2)
            return _show(parked_science.find(ids=ids)[0])
        if action == "retry":
            return _retry(options)
        return self._drop(options)

    def _drop(self, options: Mapping[str, Any]) -> Answer:
        if options["app"] or options["all"]:
            hint = "Hint: `parked list --app APP` has the numbers."
            raise CommandError(f"Only numbers can be dropped. {hint}", returncode=2)
        asked = {"ids": options["ids"], "reason": options["reason"], "now": timezone.now()}
        plan = operations.drop(**asked, dry_run=True)
        if options["dry_run"]:
            return _dropped(plan, "would be ", done=False)
        if plan.changed and not options["yes"]:
            self.stderr.write(_dropped(plan, "will be ", done=False).sentence)
            if not _agreed():
                raise CommandError("Nothing was dropped. Hint: answer yes, or add --yes.")
        return _dropped(operations.drop(**asked), "", done=True)


def _list(app: str, *, troubled: bool) -> Answer:
    found = parked_science.find(app=app, troubled=troubled)
    facts = {"parked": [_facts(one) for one in found]}
    if not found:
        return Answer("Nothing is parked.", facts)
    lines = [
        f"{one.id:>6}  {one.stage.label.lower():<10}  {one.app}  {one.subject}  "
        f"{plural(one.failures + one.transients, 'failure')}"
        f"{'' if one.parked_at else ', still tried'}: {one.reason}"
        for one in found[:SHOWN]
    ]
    if len(found) > SHOWN:
        lines.append(f"... and {len(found) - SHOWN} more. Hint: --json has them all.")
    return Answer("\n".join(lines), facts)


def _show(one: Failing) -> Answer:
    since = f"parked at {one.parked_at:%Y-%m-%d %H:%M:%S}" if one.parked_at else "still tried"
    sentence = (
        f"{one.stage.label} {one.subject} of app {one.app}: {plural(one.failures, 'failure')}, "
        f"{one.transients} of them transient besides; the last at "
        f"{one.failed_at:%Y-%m-%d %H:%M:%S}; {since}."
    )
    if not one.transients:
        sentence = sentence.replace(", 0 of them transient besides", "")
    return Answer(f"{sentence}\n\n{one.error.rstrip()}", _facts(one) | {"error": one.error})


def _retry(options: Mapping[str, Any]) -> Answer:
    if options["dry_run"]:
        named = options["ids"] or options["app"] or options["all"]
        if not named:
            raise operations.NothingNamed("Nothing is named. Hint: numbers, --app APP or --all.")
        found = parked_science.find(ids=options["ids"], app=options["app"])
        said = f"{plural(len(found), 'subject')} would be tried again."
    else:
        found = operations.retry(
            ids=options["ids"], app=options["app"], everything=options["all"], now=timezone.now()
        )
        said = f"{plural(len(found), 'subject')} will be tried again at once."
    return Answer(said, {"retried": [one.id for one in found], "dry_run": options["dry_run"]})


def _dropped(plan: operations.Dropped, verb: str, *, done: bool) -> Answer:
    said = [
        f"{plural(len(some), noun)} {verb}{what}"
        for some, noun, what in (
            (plan.cancelled, "workunit", "cancelled, as its results cannot be validated"),
            (plan.given_up, "workunit", "counted as assimilated, though no science took it"),
            (plan.trickles, "trickle", "counted as handled"),
        )
        if some
    ]
    warnings = [
        f"{one.subject} has its answer, and only later results are not judged: it stays parked. "
        "Hint: mend the validator and retry."
        for one in plan.answered
    ] + [
        f"The generator of {one.subject} stays parked. Hint: clear the app's generator instead."
        for one in plan.generators
    ]
    sentence = "; ".join(said) + "." if said else "Nothing can be dropped."
    return Answer(
        sentence,
        {
            "done": done,
            "cancelled": _subjects(plan.cancelled),
            "given_up": _subjects(plan.given_up),
            "trickles": _subjects(plan.trickles),
            "refused": _subjects([*plan.answered, *plan.generators]),
        },
        warnings,
    )


def _subjects(some: Sequence[Failing]) -> list[str]:
    return [one.subject for one in some]


def _facts(one: Failing) -> dict[str, Any]:
    return {
        "id": one.id,
        "stage": one.stage.label.lower(),
        "subject": one.subject,
        "app": one.app,
        "failures": one.failures,
        "transients": one.transients,
        "failed_at": one.failed_at,
        "parked_at": one.parked_at,
        "reason": one.reason,
    }


def _agreed() -> bool:
    try:
        return input("Type yes to drop them: ").strip().lower() == "yes"
    except EOFError:
        return False
