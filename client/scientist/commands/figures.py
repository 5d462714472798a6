"""The commands `stats` (cost of your work) and `status` (state of the project)."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from scientist.commands.context import Context
from scientist.commands.options import Commands
from scientist.display import key_value_table
from scientist.errors import UsageError
from scientist.words import count, duration, local, moment, span

_TOTALED = ("workunits", "results", "cpu_seconds", "elapsed_seconds", "credit")


def describe(commands: Commands) -> None:
    """Add `stats` and `status` to the parser."""
    stats = commands.add("stats", show_stats, help="show the cost of your work")
    stats.add_argument("--by", choices=("day", "app", "batch"), default="app", help="(default app)")
    text = "first day (UTC), or a duration before now, such as 30d"
    stats.add_argument("--since", metavar="WHEN", help=text)
    text = "day after the last day (UTC), or a duration before now"
    stats.add_argument("--until", metavar="WHEN", help=text)
    commands.add("status", show_status, help="show the state of the project")


def _when(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        ago: timedelta = duration(text)
    except UsageError:
        return moment(text)
    return datetime.now(UTC) - ago  # noqa: TID251  the edge reads the clock


def show_stats(context: Context) -> None:
    options, by = context.options, context.options.by
    rows = context.project.usage(since=_when(options.since), until=_when(options.until), by=by)
    if context.json or not rows:
        context.answer(rows, "There is no work in that time.")
        return
    columns = (by, "workunits>", "results>", "processor time>", "elapsed>", "credit>")
    total = {name: sum(float(row.get(name) or 0) for row in rows) for name in _TOTALED}
    lines = [_row(_group_name(row, by), row) for row in rows]
    if len(rows) > 1:
        lines.append([Text(cell, style="bold") for cell in _row("all", total)])
    context.table(columns, lines)


def _group_name(row: dict[str, Any], by: str) -> str:
    return str((row.get("name") if by == "batch" else None) or row.get(by) or "-")


def _row(name: str, row: dict[str, Any]) -> list[Any]:
    credit = f"{float(row.get('credit') or 0):,.2f}".replace(",", " ")
    spans = [span(float(row.get(key) or 0)) for key in ("cpu_seconds", "elapsed_seconds")]
    counts = [count(float(row.get(key) or 0)) for key in ("workunits", "results")]
    return [name, *counts, *spans, credit]


def show_status(context: Context) -> None:
    rows = context.project.status()
    if context.json:
        context.answer(rows)
        return
    daemons, apps = rows.pop("daemons", None) or (), rows.pop("apps", None) or ()
    waits = rows.pop("waits", None) or ()
    rows["read_at"] = local(datetime.fromisoformat(rows["read_at"]))
    context.out.print(
        key_value_table({name.replace("_", " "): _value(value) for name, value in rows.items()})
    )
    for wait in waits:
        context.out.print(Text(f"\n{wait['sentence']}", style="yellow"))
    if daemons:
        context.out.print()
        context.table(("daemon", "last seen", "waiting>", ""), map(_daemon_row, daemons))
    if apps:
        context.out.print()
        context.table(("app", "versions", "title"), map(_app_row, apps))


def _daemon_row(daemon: dict[str, Any]) -> list[RenderableType]:
    silent, waiting = daemon.get("silent_seconds"), daemon.get("waiting")
    last_seen = "never" if silent is None else f"{span(silent)} ago"
    does = Text(str(daemon.get("does") or ""), style="dim")
    return [Text(str(daemon.get("name", "")), style="bold"), last_seen, _value(waiting), does]


def _app_row(app: dict[str, Any]) -> list[RenderableType]:
    platforms = Counter(str(row.get("version", "")) for row in app.get("versions") or ())
    versions = [f"{name} for {count(number, 'platform')}" for name, number in platforms.items()]
    name, title = str(app.get("name", "")), str(app.get("title") or "")
    return [Text(name, style="bold"), ", ".join(versions) or "none", title if title != name else ""]


def _value(value: Any) -> str:  # noqa: ANN401  any JSON
    """Format a JSON value; a list has a line per item.

    An object with `value` and `exact` is a number, after "about" if the number is not exact.
    """
    if isinstance(value, dict) and value.keys() == {"value", "exact"}:
        return ("" if value["exact"] else "about ") + _value(value["value"])
    if isinstance(value, dict):
        # Most counts are usually zero, so zeros are left out.
        parts = {name: item for name, item in value.items() if _value(item) not in {"0", "-"}}
        return " · ".join(_named_value(name, item) for name, item in parts.items()) or "none"
    if isinstance(value, list):
        return "\n".join(_value(item) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return count(value) if isinstance(value, int) else "-" if value is None else str(value)


def _named_value(name: str, value: Any) -> str:  # noqa: ANN401  any JSON
    if name.endswith("_seconds") and isinstance(value, int | float):
        return f"{name.removesuffix('_seconds').replace('_', ' ')} {span(value)}"
    return f"{name.replace('_', ' ')} {_value(value)}"
