"""The command `history`: the attempts at a workunit by round, with their usage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from scientist.commands.context import Context
from scientist.commands.listing import find_workunit
from scientist.commands.options import Commands
from scientist.display import key_value_table, status_text, styled_status
from scientist.words import count, local, nbytes, span

#: Number of lines of a program's standard error that are printed.
_MAX_ERROR_LINES = 10
_SYSTEMS = {"TDF": "tdf", "TDF2": "tdf2", "Eve": "eve", "Disbatch": "disbatch_status"}


def describe(commands: Commands) -> None:
    """Add `history` to the parser."""
    text = "show the attempts at a workunit, with their progress and usage"
    history = commands.add("history", show_history, help=text)
    history.add_argument("workunit", metavar="WORKUNIT", help="a name or an id")
    text = "print the log: a line for each change of state, in UTC"
    history.add_argument("--log", action="store_true", help=text)


def show_history(context: Context) -> None:
    row = find_workunit(context, context.options.workunit)
    get, address = context.project.transport.get, f"workunits/{row['id']}"
    rounds, history = get(f"{address}/rounds"), get(f"{address}/history")
    figures = get(f"{address}/statistics")
    if context.json:
        context.answer({**rounds, **history, "statistics": figures})
        return
    if context.options.log:
        print(rounds["log"], end="")
        return
    context.out.print(key_value_table(_head(row, rounds, history["states"], figures)))
    attempts = history["history"]
    if not attempts:
        hint = f"scientist show workunit {row['name']} shows what it waits for."
        context.out.print(Text(f"\nNo host has received it. Hint: {hint}"))
        return
    context.out.print()
    # A workunit with a quorum of one has one replica, so its number is left out.
    replica = ["replica>"] * any(attempt["replica"] for attempt in attempts)
    columns = (
        "round>",
        *replica,
        "host>",
        "state",
        "started",
        "ended",
        "CPUs>",
        "memory>",
        "done>",
    )
    context.table(columns, [_row(attempt, is_one=not replica) for attempt in attempts])
    for title, lines in _errors(rounds):
        context.out.print(Text(f"\n{title}", style="bold dim"))
        context.out.print(Text("\n".join(lines)))


def _head(
    row: Mapping[str, Any],
    rounds: Mapping[str, Any],
    states: Mapping[str, Any],
    figures: Mapping[str, Any],
) -> dict[str, RenderableType | None]:
    fails, timeouts = count(rounds["fails"], "failure"), count(rounds["timeouts"], "time-out")
    cpu_time = f"{span(figures['cpu_seconds'])} of processor time"
    return {
        "workunit": Text.assemble((row["name"], "bold"), f"  ({row['id']})"),
        "status": styled_status(row["status"]),
        "round": f"{rounds['round']}, after {fails} and {timeouts}",
        "computed": f"{cpu_time} in {count(figures['sent'], 'result')}" if figures["sent"] else "",
        "older systems": ", ".join(f"{name} {states[key]}" for name, key in _SYSTEMS.items()),
    }


def _row(attempt: Mapping[str, Any], *, is_one: bool) -> list[RenderableType]:
    cpus, memory = _last(attempt["cpu_utilization"]), _last(attempt["memory_usage"])
    fraction = _last([sample["fraction_done"] for sample in attempt["samples"]])
    return [
        str(attempt["round"]),
        *([] if is_one else [str(attempt["replica"])]),
        str(attempt["worker"] or ""),
        status_text(attempt["state"].removeprefix("OVER/")).lower(),
        _time(attempt["time_started"]),
        _time(attempt["time_terminated"]),
        "" if cpus is None else f"{cpus:.2f}",
        "" if memory is None else nbytes(memory),
        "" if fraction is None else f"{fraction:.0%}",
    ]


def _last(values: list[float | None]) -> float | None:
    """Return the last value that is known, or None."""
    return next((value for value in reversed(values) if value is not None), None)


def _time(text: str | None) -> str:
    return local(datetime.fromisoformat(text)) if text else ""


def _errors(rounds: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield a title and the last lines of each round that wrote to its standard error."""
    timelines = {"": rounds["timeline"]}
    for other in rounds["other_replicas"]:
        timelines[f", replica {other['replica']}"] = other["timeline"]
    for suffix, timeline in timelines.items():
        for key, text in timeline.items():
            number, _, name = key.partition(":")
            if name == "error" and text.strip():
                lines = text.rstrip().splitlines()[-_MAX_ERROR_LINES:]
                yield f"stderr of round {number}{suffix}", lines
