"""Finds what the purger took out of the database, lists it, checks it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from itertools import islice
from typing import Any, ClassVar

from django.core.management.base import CommandError, CommandParser

from scheduler.management.conversation import Answer, Conversation, plural
from scheduler.work import purged_work

_ACTIONS = {"show": 1, "list": 0, "verify": 0}


class Command(Conversation):
    """``archive show NAME | list [--app A] [--since D] [--limit N] | verify``."""

    help = (
        "What is purged is in var/archive. show NAME tells the whole story of a workunit or "
        "result; list names them, the newest day first; verify reads everything to its end."
    )
    refusals: ClassVar[tuple[type[Exception], ...]] = (purged_work.NotArchived,)

    def ask(self, parser: CommandParser) -> None:
        """Ask what to do, and with what."""
        parser.add_argument("action", metavar="ACTION", choices=_ACTIONS, help=", ".join(_ACTIONS))
        parser.add_argument("names", metavar="NAME", nargs="*", help="of a workunit or a result")
        parser.add_argument("--app", help="list: only of this app")
        parser.add_argument("--since", type=date.fromisoformat, metavar="DAY", help="list: from on")
        parser.add_argument(
            "--limit", type=int, default=100, metavar="N", help="list: at most (default: 100)"
        )

    def answer(self, options: Mapping[str, Any]) -> Answer:
        """Do the one thing that is asked for."""
        action, names = options["action"], options["names"]
        if len(names) != _ACTIONS[action]:
            hint = " NAME" if action == "show" else ""
            raise CommandError(f"Hint: write `archive {action}{hint}`.", returncode=2)
        if action == "show":
            found = purged_work.find(names[0])
            return Answer(render(found), {"day": found.day, **found.entry})
        if action == "list":
            return _list(options)
        return _verify()


def _list(options: Mapping[str, Any]) -> Answer:
    found = purged_work.listed(app=options["app"], since=options["since"])
    shown = list(islice(found, max(0, options["limit"])))
    lines = [
        f"{one.day}  {one.name}  {one.entry['workunit']['app']}  {one.verdict}" for one in shown
    ]
    facts = [
        {
            "day": one.day,
            "name": one.name,
            "app": one.entry["workunit"]["app"],
            "canonical_result": one.canonical,
            "errors": one.entry["workunit"].get("errors", []),
        }
        for one in shown
    ]
    return Answer("\n".join(lines) or "Nothing of this is in the archive.", {"workunits": facts})


def _verify() -> Answer:
    days = list(purged_work.verified())
    faults = [f"{day.day} {fault}" for day in days for fault in day.faults]
    if faults:
        shown = "\n".join(faults[:10])
        msg = f"{plural(len(faults), 'line')} of the archive cannot be read:\n{shown}\n"
        raise CommandError(msg + "Hint: restore these days from a backup.")
    total = sum(day.workunits for day in days)
    sentence = f"The archive is sound: {plural(total, 'workunit')} in {plural(len(days), 'day')}."
    warnings = [
        f"{day.day} ends with {plural(day.torn, 'byte')} that are no whole part: cut short by a "
        "crash, or damaged."
        for day in days
        if day.torn
    ]
    facts = [
        {"day": day.day, "workunits": day.workunits, "repeated": day.repeated, "bytes": day.nbytes}
        for day in days
    ]
    return Answer(sentence, {"days": facts}, warnings)


def render(found: purged_work.Archived) -> str:
    """Put the story of an archived workunit on a page."""
    entry, workunit = found.entry, found.entry["workunit"]
    names = {result["id"]: result["name"] for result in entry["results"]}
    moments = (workunit["created_at"], workunit.get("finished_at"), entry["archived_at"])
    submitted, finished, archived = map(_at, moments)
    lines = [
        f"workunit {found.name} of app {workunit['app']}, {found.verdict}",
        f"  submitted {submitted}, finished {finished}, archived {archived}",
    ]
    lines += [
        f"  input {one['open_name'] or one['name']}: {one['name']}, {one['nbytes']} bytes, "
        f"sha256 {one['sha256']}"
        for one in entry.get("input_files", ())
    ]
    for result in entry["results"]:
        lines += _result(result)
    lines += [
        f"  {_at(step['at'])}  {names.get(step.get('result_id'), found.name)}  "
        f"{step['axis']}: {step['from']} → {step['to']}  ({step['because']}, {step['by']})"
        for step in entry["timeline"]
    ]
    lines += [
        f"- {one['amount']:g} credit to account {one['account_id']} for "
        f"{names.get(one['result_id'], one['result_id'])} ({one['rule']})"
        for one in entry["credit"]
    ]
    lines += [
        f"- host {one['host_id']} was refused it: {one['sentence']}"
        for one in entry.get("refusals", ())
    ]
    return "\n".join(lines)


def _result(result: Mapping[str, Any]) -> list[str]:
    where = f"host {result['host_id']}" if "host_id" in result else "no host"
    state = f"{result['server_state']}/{result['outcome']}, {result['validate_state']}"
    lines = [f"result {result['name']}: {state}, {where}"]
    lines += [
        f"  output {one['name']}: {one['nbytes']} bytes, sha256 {one['sha256']}"
        for one in result.get("outputs", ())
    ]
    lines += [
        f"  said at {_at(one['said_at'])}: {one.get('variety') or 'trickle'}"
        for one in result.get("trickles_up", ())
    ]
    if usage := result.get("usage"):
        lines.append(f"  {plural(len(usage), 'usage sample')}, the last {_at(usage[-1]['at'])}")
    return lines


def _at(moment: str | None) -> str:
    return "never" if moment is None else moment[:19].replace("T", " ")
