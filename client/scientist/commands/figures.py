"""`stats` and `status`: what your work has cost, and how the project is."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.text import Text

from scientist.commands.context import OK, Context
from scientist.display import pairs
from scientist.errors import UsageError
from scientist.words import count, duration, moment, span

_SHOWN = ("workunits", "results", "cpu_seconds", "elapsed_seconds", "credit")


def describe(commands: Any, common: argparse.ArgumentParser) -> None:  # noqa: ANN401  argparse's own
    """Add the two commands."""
    stats = commands.add_parser("stats", parents=[common], help="show what your work has cost")
    stats.add_argument("--by", choices=("day", "app", "batch"), default="app", help="(default app)")
    stats.add_argument("--since", metavar="WHEN", help="a day (UTC), or 30d for so long ago")
    stats.add_argument("--until", metavar="WHEN", help="the same")
    stats.set_defaults(command=show_stats)
    status = commands.add_parser("status", parents=[common], help="show how the project is")
    status.set_defaults(command=show_status)


def _when(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        ago: timedelta = duration(text)
    except UsageError:
        return moment(text)
    return datetime.now(UTC) - ago  # noqa: TID251  the edge reads the clock


def show_stats(context: Context) -> int:
    """Carry out `stats`."""
    options = context.options
    rows = context.project.usage(
        since=_when(options.since), until=_when(options.until), by=options.by
    )
    if context.json:
        context.answer(rows)
        return OK
    if not rows:
        context.out.print("There is nothing yet in that time.")
        return OK
    columns = [(options.by, False), ("workunits", True), ("results", True)]
    columns += [("processor time", True), ("elapsed", True), ("credit", True)]
    total = {name: sum(float(row.get(name) or 0) for row in rows) for name in _SHOWN}
    shown = [_row(_named(row, options.by), row) for row in rows]
    if len(rows) > 1:
        shown.append([Text(one, style="bold") for one in _row("all", total)])
    context.table(columns, shown)
    return OK


def _named(row: dict[str, Any], by: str) -> str:
    return str((row.get("name") if by == "batch" else None) or row.get(by) or "-")


def _row(name: str, row: dict[str, Any]) -> list[Any]:
    credit = f"{float(row.get('credit') or 0):,.2f}".replace(",", " ")
    spans = [span(float(row.get(one) or 0)) for one in ("cpu_seconds", "elapsed_seconds")]
    counts = [count(float(row.get(one) or 0)) for one in ("workunits", "results")]
    return [name, *counts, *spans, credit]


def show_status(context: Context) -> int:
    """Carry out `status`."""
    said = context.project.status()
    shown = {name.replace("_", " "): _value(value) for name, value in said.items()}
    context.answer(said, pairs(shown))
    return OK


def _value(value: Any) -> str:  # noqa: ANN401  any JSON
    """A value on one line; an estimate is its number, a list has a line for each."""
    if isinstance(value, dict) and value.keys() == {"value", "exact"}:
        return ("" if value["exact"] else "about ") + _value(value["value"])
    if isinstance(value, dict):
        return " · ".join(_named_value(name, one) for name, one in value.items() if one is not None)
    if isinstance(value, list):
        return "\n".join(_value(one) for one in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return count(value) if isinstance(value, int) else "-" if value is None else str(value)


def _named_value(name: str, value: Any) -> str:  # noqa: ANN401  any JSON
    if name.endswith("_seconds") and isinstance(value, int | float):
        return f"{name.removesuffix('_seconds').replace('_', ' ')} {span(value)}"
    return f"{name.replace('_', ' ')} {_value(value)}"
