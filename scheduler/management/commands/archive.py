"""Shows, lists and verifies the archive of purged workunits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from itertools import islice
from typing import Any

from django.core.management.base import CommandError, CommandParser

from scheduler.management.base import Answer, JsonCommand, plural, require
from scheduler.work import purged_work

#: The number of names that each action takes.
_ACTIONS = {"show": 1, "list": 0, "verify": 0}


class Command(JsonCommand):
    """``archive show NAME | list [--app A] [--since D] [--limit N] | verify``."""

    help = (
        "Read the archive of purged work, var/archive. show NAME prints the history of a workunit "
        "or result; list lists workunits, newest day first; verify reads all files completely."
    )
    refusals = (purged_work.NotArchived,)

    def add_options(self, parser: CommandParser) -> None:
        self.add_action(parser, _ACTIONS)
        add = parser.add_argument
        add("names", metavar="NAME", nargs="*", help="show: name of a workunit or a result")
        add("--app", help="list: only workunits of this app")
        add("--since", type=date.fromisoformat, metavar="DAY", help="list: the earliest day")
        add(
            "--limit",
            type=int,
            default=100,
            metavar="N",
            help="list: maximum number of workunits (default: 100)",
        )

    def answer(self, options: Mapping[str, Any]) -> Answer:
        action, names = options["action"], options["names"]
        hint = f"Hint: write `archive {action}{' NAME' * _ACTIONS[action]}`."
        require(len(names) == _ACTIONS[action], f"The number of arguments is wrong. {hint}")
        if action == "show":
            archived = purged_work.find(names[0])
            return Answer(render(archived), {"day": archived.day, **archived.entry})
        return _list(options) if action == "list" else _verify()


def _list(options: Mapping[str, Any]) -> Answer:
    entries = purged_work.listed(app=options["app"], since=options["since"])
    shown = list(islice(entries, max(0, options["limit"])))
    lines = [
        f"{row.day}  {row.name}  {row.entry['workunit']['app']}  {row.verdict}" for row in shown
    ]
    facts = [
        {
            "day": row.day,
            "name": row.name,
            "app": row.entry["workunit"]["app"],
            "canonical_result": row.canonical,
            "errors": row.entry["workunit"].get("errors", []),
        }
        for row in shown
    ]
    return Answer("\n".join(lines) or "The archive has no such workunit.", {"workunits": facts})


def _verify() -> Answer:
    days = list(purged_work.verified())
    faults = [f"{day.day} {fault}" for day in days for fault in day.faults]
    if faults:
        shown = "\n".join(faults[:10])
        msg = f"{plural(len(faults), 'line')} of the archive cannot be read:\n{shown}\n"
        raise CommandError(msg + "Hint: restore these days from a backup.")
    total = plural(sum(day.workunits for day in days), "workunit")
    sentence = f"The archive is intact: {total} in {plural(len(days), 'day')}."
    warnings = [
        f"{day.day} ends with an incomplete part of {plural(day.torn, 'byte')}: truncated by a "
        "crash, or damaged."
        for day in days
        if day.torn
    ]
    facts = [
        {"day": day.day, "workunits": day.workunits, "repeated": day.repeated, "bytes": day.nbytes}
        for day in days
    ]
    return Answer(sentence, {"days": facts}, warnings)


def render(archived: purged_work.Archived) -> str:
    """Return the history of an archived workunit as text."""
    entry, workunit = archived.entry, archived.entry["workunit"]
    names = {result["id"]: result["name"] for result in entry["results"]}
    finished, archived_at = _at(workunit.get("finished_at")), _at(entry["archived_at"])
    lines = [
        f"workunit {archived.name} of app {workunit['app']}, {archived.verdict}",
        f"  submitted {_at(workunit['created_at'])}, finished {finished}, archived {archived_at}",
    ]
    lines += [
        f"  input {file['open_name'] or file['name']}: {file['name']}, {file['nbytes']} bytes, "
        f"sha256 {file['sha256']}"
        for file in entry.get("input_files", ())
    ]
    for result in entry["results"]:
        lines += _result(result)
    lines += [
        f"  {_at(step['at'])}  {names.get(step.get('result_id'), archived.name)}  "
        f"{step['axis']}: {step['from']} → {step['to']}  ({step['because']}, {step['by']})"
        for step in entry["timeline"]
    ]
    lines += [
        f"- {grant['amount']:g} credit to account {grant['account_id']} for "
        f"{names.get(grant['result_id'], grant['result_id'])} ({grant['rule']})"
        for grant in entry["credit"]
    ]
    lines += [
        f"- refused to host {refusal['host_id']}: {refusal['sentence']}"
        for refusal in entry.get("refusals", ())
    ]
    return "\n".join(lines)


def _result(result: Mapping[str, Any]) -> list[str]:
    where = f"host {result['host_id']}" if "host_id" in result else "no host"
    state = f"{result['server_state']}/{result['outcome']}, {result['validate_state']}"
    lines = [f"result {result['name']}: {state}, {where}"]
    lines += [
        f"  output {file['name']}: {file['nbytes']} bytes, sha256 {file['sha256']}"
        for file in result.get("outputs", ())
    ]
    lines += [
        f"  message at {_at(trickle['said_at'])}: {trickle.get('variety') or 'trickle'}"
        for trickle in result.get("trickles_up", ())
    ]
    if usage := result.get("usage"):
        lines.append(f"  {plural(len(usage), 'usage sample')}, the last {_at(usage[-1]['at'])}")
    return lines


def _at(moment: str | None) -> str:
    return "never" if moment is None else moment[:19].replace("T", " ")
