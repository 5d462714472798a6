"""The commands `queue list`, `show`, `create`, `change`, `delete` and `balance`."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from scientist.commands.context import Context
from scientist.commands.options import Commands, non_negative
from scientist.display import key_value_table
from scientist.errors import UsageError
from scientist.models import QueueInfo
from scientist.words import local, moment

ORDERS = ("priority", "fifo", "lifo")
#: Options of `create` and `change` that are fields of a queue.
_FIELDS = (
    *("app", "order", "priority_group", "max_in_progress", "disabled_until", "time_zone"),
    *("max_new_per_claim", "max_new_per_host"),
)
_LISTS = ("allowed_hosts", "denied_hosts", "allowed_accounts", "denied_accounts")
_VERBS = {"allowed": "allow", "denied": "deny"}
#: The value of options that removes a limit or a setting.
_NONE = "none"


def describe(commands: Commands) -> None:
    """Add `queue` and its six subcommands to the parser."""
    queue = commands.group("queue", help="list, show, create, change and delete queues")
    listing = queue.add("list", list_queues, help="list the queues and their results")
    listing.add_argument("--app", metavar="APP", help="only queues of this app")
    show = queue.add("show", show_queue, help="show the settings of a queue")
    show.add_argument("queue", metavar="NAME")
    for name, run in (("create", create_queue), ("change", change_queue)):
        command = queue.add(name, run, help=f"{name} a queue; needs the scope administer")
        command.add_argument("queue", metavar="NAME")
        _describe_fields(command)
    delete = queue.add("delete", delete_queue, help="delete a queue without workunits")
    delete.add_argument("queue", metavar="NAME")
    text = "show or change the maximum that several queues share"
    _describe_balance(queue.add("balance", balance_queues, help=text))


def _describe_fields(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    text = "maximum number of results in progress, 0 to stop the queue, or none"
    add("--limit", dest="max_in_progress", type=_limit, metavar="N", help=text)
    add("--order", choices=ORDERS, help="order of sending (default priority)")
    text = "higher groups are sent first (default 0)"
    add("--group", dest="priority_group", type=int, metavar="N", help=text)
    add("--app", metavar="APP", help="the only app of its work, or none")
    text = "send nothing before this time (UTC), or none"
    add("--disabled-until", type=_moment, metavar="TIME", help=text)
    text = "maximum number of results that the project sends at once, or none"
    add("--max-per-claim", dest="max_new_per_claim", type=_limit, metavar="N", help=text)
    text = "maximum number of results in one reply to a host, or none"
    add("--max-per-host", dest="max_new_per_host", type=_limit, metavar="N", help=text)
    trusted = command.add_mutually_exclusive_group()
    text = "allow infinite deadlines, and claims by hosts of a pool"
    trusted.add_argument("--trusted", action="store_true", default=None, help=text)
    text = "allow neither"
    trusted.add_argument(
        "--not-trusted", dest="trusted", action="store_false", default=None, help=text
    )
    text = 'change of the limit, such as "* 07:00 50" or "1 18:30 none"; repeatable'
    add("--at", metavar="WHEN", type=_entry, action="append", help=text)
    add("--no-schedule", action="store_true", help="remove the schedule")
    add("--time-zone", metavar="ZONE", help="time zone of the schedule (default UTC)")
    for name in _LISTS:
        verb, noun = name.split("_")
        text = f"ids of {noun} that are {verb}, such as 3,7, or none"
        add(f"--{_VERBS[verb]}-{noun}", dest=name, type=_ids, metavar="IDS", help=text)


def _describe_balance(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    text = "names of queues that share equally, such as urgent,lab; repeatable, first group first"
    add("--group", metavar="NAMES", type=_names, action="append", help=text)
    add("--no-queues", action="store_true", help="remove all queues from the balance")
    text = 'the maximum of all queues from a time on, such as "* 07:00 50"; repeatable'
    add("--at", metavar="WHEN", type=_entry, action="append", help=text)
    add("--time-zone", metavar="ZONE", help="time zone of the times (default UTC)")
    text = "leave the limits of the queues alone before this time (UTC), or none"
    add("--disabled-until", type=_moment, metavar="TIME", help=text)


def _names(text: str) -> list[str]:
    """Parse a list of names of queues.  Raises UsageError."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(f"{text!r} is not a list of queues.", "write urgent,lab.")
    return names


def _limit(text: str) -> int | str:
    return text if text == _NONE else non_negative(text)


def _moment(text: str) -> str:
    return text if text == _NONE else moment(text).isoformat()


def _entry(text: str) -> dict[str, Any]:
    """Parse an entry of a schedule.  Raises UsageError."""
    at, _, limit = text.strip().rpartition(" ")
    if not at:
        raise UsageError(f"{text!r} is not an entry of a schedule.", 'write "* 07:00 50".')
    return {"at": at, "max_in_progress": None if limit == _NONE else non_negative(limit)}


def _ids(text: str) -> list[int]:
    """Parse a list of ids.  Raises UsageError."""
    if text == _NONE:
        return []
    if not all(word.strip().isdecimal() for word in text.split(",")):
        raise UsageError(f"{text!r} is not a list of ids.", "write 3,7 or none.")
    return [int(word) for word in text.split(",")]


def _fields(options: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of the API for the options that are given."""
    values = {name: getattr(options, name) for name in (*_FIELDS, *_LISTS, "trusted")}
    fields = {
        name: None if value == _NONE else value
        for name, value in values.items()
        if value is not None
    }
    if options.at or options.no_schedule:
        fields["schedule"] = options.at or []
    return fields


def list_queues(context: Context) -> None:
    columns = ("name", "order", "group>", "unsent>", "in progress>", "limit>", "app", "")
    empty = "There are no queues. Hint: scientist queue create NAME creates one."
    rows = list(context.project.queues(app=context.options.app))
    context.listing(rows, columns, _row, empty)


def _row(queue: QueueInfo) -> list[RenderableType]:
    return [
        Text(queue.name, style="bold"),
        queue.order,
        str(queue.priority_group),
        str(queue.unsent),
        str(queue.in_progress),
        _limit_text(queue),
        queue.app or "",
        Text(_state(queue), style="yellow"),
    ]


def _limit_text(queue: QueueInfo) -> str:
    return _NONE if queue.max_in_progress is None else str(queue.max_in_progress)


def _state(queue: QueueInfo) -> str:
    if queue.max_in_progress == 0:
        return "stopped"
    full = queue.max_in_progress is not None and queue.in_progress is not None
    return "full" if full and (queue.in_progress or 0) >= (queue.max_in_progress or 0) else ""


def show_queue(context: Context) -> None:
    _answer(context, context.project.queue(context.options.queue))


def _answer(context: Context, queue: QueueInfo) -> None:
    limits = (queue.max_new_per_claim, queue.max_new_per_host)
    per_claim, per_host = ("" if limit is None else str(limit) for limit in limits)
    schedule = "\n".join(
        f"{entry['at']} {_NONE if entry['max_in_progress'] is None else entry['max_in_progress']}"
        for entry in queue.schedule
    )
    rows: dict[str, RenderableType | None] = {
        "queue": Text(queue.name, style="bold"),
        "app": queue.app or "",
        "order": queue.order,
        "priority group": str(queue.priority_group),
        "limit": _limit_text(queue),
        "disabled until": local(queue.disabled_until) if queue.disabled_until else "",
        "per claim": per_claim,
        "per host": per_host,
        "trusted": "yes" if queue.trusted else "no",
        f"schedule ({queue.time_zone})": schedule,
    }
    for name in _LISTS:
        rows[name.replace("_", " ")] = ", ".join(map(str, getattr(queue, name) or ()))
    context.answer(queue, key_value_table(rows))


def create_queue(context: Context) -> None:
    options = context.options
    _answer(context, context.project.create_queue(options.queue, **_fields(options)))


def change_queue(context: Context) -> None:
    """Change a queue.  Raises UsageError if no option names a change."""
    fields = _fields(context.options)
    if not fields:
        raise UsageError("Nothing to change was given.", "scientist queue change NAME --limit 5")
    _answer(context, context.project.change_queue(context.options.queue, **fields))


def delete_queue(context: Context) -> None:
    name = context.options.queue
    context.project.delete_queue(name)
    context.answer({"deleted": name}, f"deleted queue {name}")


def balance_queues(context: Context) -> None:
    """Change the balance if options are given, and print it."""
    options = context.options
    fields: dict[str, Any] = {"time_zone": options.time_zone} if options.time_zone else {}
    if options.group or options.no_queues:
        fields["queues"] = options.group or []
    if options.at:
        fields["max_tasks"] = {entry["at"]: entry["max_in_progress"] for entry in options.at}
    if options.disabled_until is not None:
        until = options.disabled_until
        fields["disabled_until"] = None if until == _NONE else until
    project = context.project
    balance = project.change_balance(**fields) if fields else project.balance()
    rows: dict[str, RenderableType | None] = {
        f"group {number}": ", ".join(names) for number, names in enumerate(balance.queues, 1)
    }
    rows[f"maximum ({balance.time_zone})"] = "\n".join(
        f"{at} {most}" for at, most in balance.max_tasks.items()
    )
    until_text = local(balance.disabled_until) if balance.disabled_until else ""
    context.answer(balance, key_value_table({**rows, "disabled until": until_text}))
