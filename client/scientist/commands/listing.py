"""The commands `list` and `show` for batches, workunits and results."""

from __future__ import annotations

import itertools
import sys
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from scientist.commands.context import Context, about
from scientist.commands.options import Commands, positive
from scientist.commands.watching import now
from scientist.display import (
    STYLES,
    batch_panel,
    key_value_table,
    stacked_bar,
    status_text,
    styled_status,
)
from scientist.errors import NotFoundError, UsageError
from scientist.graphs import draw
from scientist.models import BatchInfo, ResultInfo, Troubles, WorkunitInfo, read
from scientist.words import count, local, nbytes, span

_DEFAULT_LIMIT = 100
#: The minimum number of columns of a terminal for bars in the list of batches.
_MIN_WIDTH_FOR_BARS = 118


def describe(commands: Commands) -> None:
    """Add `list` and `show` to the parser."""
    listing = commands.add("list", list_things, help="list batches, workunits, results")
    add = listing.add_argument
    add("what", nargs="?", default="batches", choices=tuple(_LISTS))
    text = "only workunits or results of this batch, by id or name"
    add("batch", metavar="BATCH", nargs="?", help=text)
    add("--app", metavar="APP", help="only batches or workunits of this app")
    add("--status", choices=tuple(STYLES), help="only workunits of this status")
    add("--workunit", metavar="W", help="only results of this workunit, by name or id")
    text = f"at most N rows (default {_DEFAULT_LIMIT})"
    add("--limit", type=positive, metavar="N", help=text)
    add("--all", action="store_true", help="all rows, without a limit")
    show = commands.add(
        "show",
        show_thing,
        help="show a batch, a workunit with its timeline, or a result",
        usage="scientist show [options] [batch|workunit|result] WHICH",
    )
    show.add_argument(
        "which",
        metavar="[batch|workunit|result] WHICH",
        nargs="+",
        help="a name or an id: a number alone is the id of a batch, a name is searched among "
        "batches, then workunits, then results",
    )
    text = "draw the workunits of a batch and their dependencies, as SVG (- writes to stdout)"
    show.add_argument("--graph", metavar="FILE", help=text)


def list_things(context: Context) -> None:
    options = context.options
    if options.what == "batches" and (options.batch or options.status):
        hint = f"use scientist list workunits {options.batch or 'BATCH'}."
        raise UsageError("BATCH and --status apply to workunits, not to batches.", hint)
    if options.what == "results" and options.app:
        hint = f"use scientist list workunits --app {options.app}."
        raise UsageError("--app applies to batches and workunits, not to results.", hint)
    limit = None if options.all else options.limit or _DEFAULT_LIMIT
    number = _LISTS[options.what](context, limit)
    if limit is not None and number == limit and not context.json:
        context.err.print(Text(f"the newest {count(limit)}; --all lists all rows", style="dim"))


def _list_batches(context: Context, limit: int | None) -> int:
    rows = itertools.islice(context.project.batches(app=context.options.app), limit)
    infos = [batch.info for batch in rows]
    bars = [""] * _has_bars(context)
    columns = ["id>", "name", "app", *bars, "done>", "failed>", "of>", "state", "since"]
    empty = "You have no batches yet. Hint: scientist submit APP FILES... submits a batch."
    context.listing(infos, columns, partial(_batch_row, context), empty)
    return len(infos)


def _batch_row(context: Context, info: BatchInfo) -> list[RenderableType]:
    progress = info.progress
    row: list[RenderableType] = [str(info.id), Text(info.name, style="bold"), info.app]
    row += [stacked_bar(progress, 16)] * _has_bars(context)
    failed = Text(count(progress.failed), style="red" if progress.failed else "dim")
    row += [count(progress.done), failed, count(progress.total), status_text(info.state)]
    return [*row, local(info.created_at)[:-3]]


def _has_bars(context: Context) -> bool:
    return context.out.is_terminal and context.out.width >= _MIN_WIDTH_FOR_BARS


def _list_workunits(context: Context, limit: int | None) -> int:
    options = context.options
    batch = context.batch(options.batch).id if options.batch else None
    workunits = context.project.workunits(batch=batch, status=options.status, app=options.app)
    rows = list(itertools.islice(workunits, limit))
    columns = ("id>", "name", "status", "finished", "credit>", "")
    context.listing(rows, columns, _workunit_row, "There are no such workunits.")
    return len(rows)


def _workunit_row(workunit: WorkunitInfo) -> list[RenderableType]:
    status, finished = styled_status(workunit.status), local(workunit.finished_at)
    reasons = Text(", ".join(workunit.errors), style="red")
    credit = f"{workunit.credit:.2f}" if workunit.credit else ""
    return [str(workunit.id), workunit.name, status, finished, credit, reasons]


def _list_results(context: Context, limit: int | None) -> int:
    options = context.options
    params: dict[str, Any] = {}
    if options.workunit:
        params["workunit"] = find_workunit(context, options.workunit)["id"]
    elif options.batch:
        params["batch"] = context.batch(options.batch).id
    pages = context.project.transport.pages("results", params)
    rows = [read(ResultInfo, row) for row in itertools.islice(pages, limit)]
    columns = ("id>", "name", "state", "validity", "host>", "processor time>", "sent")
    context.listing(rows, columns, _result_row, "There are no such results.")
    return len(rows)


def _result_row(result: ResultInfo) -> list[RenderableType]:
    cpu_time = span(result.cpu_seconds) if result.cpu_seconds else ""
    host, sent = str(result.host or ""), local(result.sent_at)
    validity = "" if result.validate_state == "INIT" else _lower(result.validate_state)
    return [str(result.id), result.name, _lower(result.state), validity, host, cpu_time, sent]


_LISTS = {"batches": _list_batches, "workunits": _list_workunits, "results": _list_results}


def _lower(state: str | None) -> str:
    """Return a state of the API as words in lower case; None becomes an empty string."""
    return status_text(state or "").lower()


# show


def show_thing(context: Context) -> None:
    words = context.options.which
    if context.options.graph is not None:
        _draw_batch(context, words, context.options.graph)
        return
    kind = words[0] if len(words) > 1 else None
    functions = {"batch": _show_batch, "workunit": _show_workunit, "result": _show_result}
    if kind not in {None, *functions} or len(words) > 2:  # noqa: PLR2004  a kind and a name
        hint = "write batch, workunit or result and a name, or only a name."
        raise UsageError(f"{' '.join(words)!r} is not a kind and a name.", hint)
    if kind is not None:
        functions[kind](context, words[1])
        return
    # Without a kind, a number is the id of a batch, and a name is looked up in each kind.
    which = words[0]
    for name in ["batch"] if which.isdecimal() else functions:
        try:
            functions[name](context, which)
        except NotFoundError:
            continue
        if name == "batch" and not which.isdecimal():
            _warn_of_workunit(context, which)
        return
    detail, hint = f"You have no batch, workunit or result {which!r}.", ""
    if which.isdecimal():
        detail = f"You have no batch {which}."
        hint = f"try scientist show workunit {which}, or show result {which}; "
    hint += "scientist list shows your batches."
    raise NotFoundError(404, {"detail": detail, "hint": hint, "code": "not_found"})


def _draw_batch(context: Context, words: list[str], path: str) -> None:
    """Write the graph of a batch as SVG to a file, or to stdout if the path is ``-``."""
    if words[:-1] not in ([], ["batch"]):
        hint = "write scientist show BATCH --graph FILE."
        raise UsageError(f"{' '.join(words)!r} is not a batch.", hint)
    batch = context.batch(words[-1])
    nodes = context.project.graph(batch)
    text = draw(nodes, f"batch {batch.name}: {count(len(nodes), 'workunit')}")
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        hint = "name a file in a folder that exists."
        raise UsageError(f"{path} cannot be written: {error.strerror}.", hint) from None
    facts = {"batch": about(batch), "workunits": len(nodes), "file": path}
    context.answer(facts, Text(f"drew {count(len(nodes), 'workunit')} in {path}"))


def _warn_of_workunit(context: Context, name: str) -> None:
    if next(context.project.workunits(name=name), None) is not None:
        hint = f"scientist show workunit {name} shows the workunit of this name."
        context.warn(f"this is the batch {name}; {hint}")


def _show_batch(context: Context, which: str) -> None:
    batch = context.batch(which)
    info = batch.refresh()
    cost, cpu_time = info.cost, f"{span(info.cost.cpu_seconds)} of processor time"
    rows: dict[str, RenderableType | None] = {
        "state": status_text(info.state),
        "submitted": local(info.created_at),
        "complete": local(info.completed_at) if info.completed_at else "",
        "expires": local(info.expire_at) if info.expire_at else "",
        "after": f"batch {info.after}" if info.after else "",
        "computed": f"{cpu_time} in {count(cost.results, 'result')}",
        "credit": f"{cost.credit:,.2f}".replace(",", " "),
        "notes": _notes(info),
    }
    troubles = Troubles() if context.json else batch.troubles()
    panel = batch_panel(info, info.progress, now(), troubles.waits)
    parts: list[RenderableType] = [panel, Text(), key_value_table(rows)]
    parts += [Text(f"\n{error}", style="red") for error in troubles.sentences]
    context.answer(info, Group(*parts))


def _notes(info: BatchInfo | WorkunitInfo) -> str:
    return ", ".join(f"{name}={value}" for name, value in info.meta.items())


def find_workunit(context: Context, which: str) -> dict[str, Any]:
    """Return the JSON object of the workunit with this name, or else with this id.

    Raises NotFoundError.
    """
    transport = context.project.transport
    row = next(transport.pages("workunits", {"name": which, "limit": 1}), None)
    if row is None and which.isdecimal():
        return dict(transport.get(f"workunits/{which}"))
    if row is None:
        detail = f"You have no workunit {which!r}."
        hint = "scientist list workunits BATCH shows their names."
        raise NotFoundError(404, {"detail": detail, "hint": hint, "code": "not_found"})
    return dict(transport.get(f"workunits/{row['id']}"))


def _show_workunit(context: Context, which: str) -> None:
    row = find_workunit(context, which)
    timeline = context.project.transport.get(f"workunits/{row['id']}/timeline")
    workunit = read(WorkunitInfo, row)
    errors = ", ".join(workunit.errors)
    outputs = [entry if isinstance(entry, str) else entry["open_name"] for entry in row["outputs"]]
    inputs = [f"{entry['open_name']} ({nbytes(entry['nbytes'])})" for entry in row["input_files"]]
    rows: dict[str, RenderableType | None] = {
        "workunit": Text.assemble((workunit.name, "bold"), f"  ({workunit.id})"),
        "app": workunit.app,
        "batch": str(workunit.batch or ""),
        "status": styled_status(workunit.status),
        "errors": Text(errors, style="red") if errors else None,
        "command line": workunit.command_line,
        "inputs": ", ".join(inputs),
        "outputs": ", ".join(outputs),
        "quorum": str(row.get("min_quorum", "")),
        "notes": _notes(workunit),
        "results": Text("\n").join(
            Text(f"{result['name']} ({result['id']}): {_state(result)}")
            for result in row["results"]
        ),
    }
    parts: list[RenderableType] = [key_value_table(rows), *_timeline(timeline)]
    context.answer({**row, **timeline}, Group(*parts))


def _state(result: dict[str, Any]) -> str:
    parts = [_lower(result.get("state")), _lower(result.get("validate_state"))]
    host = f" on host {result['host']}" if result.get("host") else ""
    return ", ".join(part for part in parts if part and part != "init") + host


def _timeline(answer: dict[str, Any]) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if moves := answer.get("timeline"):
        parts += [Text("\ntimeline (UTC)", style="bold dim"), _steps(moves)]
    return [*parts, *(Text(f"\n{reason}") for reason in answer.get("reasons") or ())]


def _steps(moves: list[dict[str, Any]]) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    for move in moves:
        table.add_row(
            Text(str(move["at"]).replace("T", " ")[:19], style="dim"),
            str(move.get("subject", "")),
            Text(f"{move.get('axis', '')}: {move.get('source', '')} → {move.get('target', '')}"),
            Text(f"{move.get('because', '')} ({move.get('by', '')})", style="dim"),
        )
    return table


def _show_result(context: Context, which: str) -> None:
    transport = context.project.transport
    if which.isdecimal():
        row = transport.get(f"results/{which}")
    else:
        workunit = find_workunit(context, which.rpartition("_")[0] or which)
        ids = [result["id"] for result in workunit["results"] if result["name"] == which]
        if not ids:
            raise NotFoundError(404, {"detail": f"You have no result {which!r}."})
        row = transport.get(f"results/{ids[0]}")
    result = read(ResultInfo, row)
    outputs = [f"{file.open_name} ({nbytes(file.nbytes)})" for file in result.outputs]
    rows: dict[str, RenderableType | None] = {
        "result": Text.assemble((result.name, "bold"), f"  ({result.id})"),
        "state": _state(row),
        "sent": local(result.sent_at) if result.sent_at else "",
        "deadline": local(result.report_deadline) if result.report_deadline else "",
        "reported": local(result.received_at) if result.received_at else "",
        "exit status": "" if result.exit_status is None else str(result.exit_status),
        "processor time": span(result.cpu_seconds) if result.cpu_seconds else "",
        "credit": f"{result.credit:.2f}" if result.credit else "",
        "outputs": ", ".join(outputs),
    }
    parts: list[RenderableType] = [key_value_table(rows)]
    if result.stderr.strip():
        parts += [Text("\nstderr", style="bold dim"), Text(result.stderr.rstrip())]
    context.answer(row, Group(*parts))
