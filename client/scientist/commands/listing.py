"""`list` and `show`: batches, workunits and results."""

from __future__ import annotations

import argparse
import itertools
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from scientist.commands.context import OK, Context, positive, typed
from scientist.commands.watching import now
from scientist.display import STYLES, painted, pairs, picture, strip, words
from scientist.errors import NotFoundError, UsageError
from scientist.models import BatchInfo, ResultInfo, Troubles, WorkunitInfo, read
from scientist.words import count, local, nbytes, span

_KINDS = ("batch", "workunit", "result")
_MOST = 100
_WIDE = 118


def describe(commands: Any, common: argparse.ArgumentParser) -> None:  # noqa: ANN401  argparse's own
    """Add the two commands."""
    listing = commands.add_parser("list", parents=[common], help="list batches, workunits, results")
    listing.add_argument(
        "what", nargs="?", default="batches", choices=("batches", "workunits", "results")
    )
    listing.add_argument("batch", metavar="BATCH", nargs="?", help="whose, by id or name")
    listing.add_argument("--app", metavar="APP", help="of this app alone")
    listing.add_argument("--status", choices=tuple(STYLES), help="of workunits")
    listing.add_argument("--workunit", metavar="W", help="whose results, by name or id")
    listing.add_argument(
        "--limit", type=typed(positive), metavar="N", help=f"so many at most (default {_MOST})"
    )
    listing.add_argument("--all", action="store_true", help="however many they are")
    listing.set_defaults(command=list_things)
    show = commands.add_parser(
        "show",
        parents=[common],
        help="show one, with its timeline",
        usage="scientist show [options] [batch|workunit|result] WHICH",
    )
    show.add_argument(
        "which",
        metavar="[batch|workunit|result] WHICH",
        nargs="+",
        help="by name, or by id: a number alone is the id of a batch, a name is looked for among "
        "batches, then workunits, then results",
    )
    show.set_defaults(command=show_thing)


def list_things(context: Context) -> int:
    """Carry out `list`."""
    options = context.options
    lists = {"batches": _list_batches, "workunits": _list_workunits, "results": _list_results}
    if options.what == "batches" and (options.batch or options.status):
        hint = f"scientist list workunits {options.batch or 'BATCH'}"
        raise UsageError("That is said of workunits, and batches are listed.", hint)
    most = None if options.all else options.limit or _MOST
    found = lists[options.what](context, most)
    if most is not None and found == most and not context.json:
        context.err.print(Text(f"the newest {count(most)}; --all lists them all", style="dim"))
    return OK


def _list_batches(context: Context, most: int | None) -> int:
    rows = list(itertools.islice(context.project.batches(app=context.options.app), most))
    infos = [one.info for one in rows]
    if context.json:
        context.answer(infos)
    elif not infos:
        context.out.print("You have no batches yet. scientist submit APP FILES...")
    else:
        columns = [("id", True), ("name", False), ("app", False)]
        columns += [("", False)] * _has_bars(context)
        columns += [("done", True), ("failed", True), ("of", True)]
        columns += [("state", False), ("since", False)]
        context.table(columns, [_batch_row(context, one) for one in infos])
    return len(infos)


def _batch_row(context: Context, one: BatchInfo) -> list[RenderableType]:
    far = one.progress
    row: list[RenderableType] = [str(one.id), Text(one.name, style="bold"), one.app]
    row += [strip(far, 16)] * _has_bars(context)
    failed = Text(count(far.failed), style="red" if far.failed else "dim")
    row += [count(far.done), failed, count(far.total), words(one.state)]
    return [*row, local(one.created_at)[:-3]]


def _has_bars(context: Context) -> bool:
    """Whether there is room for them."""
    return context.out.is_terminal and context.out.width >= _WIDE


def _list_workunits(context: Context, most: int | None) -> int:
    options = context.options
    batch = context.batch(options.batch).id if options.batch else None
    found = context.project.workunits(batch=batch, status=options.status, app=options.app)
    rows = list(itertools.islice(found, most))
    if context.json:
        context.answer(rows)
    elif not rows:
        context.out.print("There are no such workunits.")
    else:
        columns = [("id", True), ("name", False), ("status", False), ("finished", False)]
        columns += [("credit", True), ("", False)]
        context.table(columns, [_workunit_row(one) for one in rows])
    return len(rows)


def _workunit_row(one: WorkunitInfo) -> list[RenderableType]:
    reasons = Text(", ".join(one.errors), style="red")
    credit = f"{one.credit:.2f}" if one.credit else ""
    return [str(one.id), one.name, painted(one.status), local(one.finished_at), credit, reasons]


def _list_results(context: Context, most: int | None) -> int:
    options = context.options
    params: dict[str, Any] = {}
    if options.workunit:
        params["workunit"] = _find_workunit(context, options.workunit)["id"]
    elif options.batch:
        params["batch"] = context.batch(options.batch).id
    found = context.project.transport.pages("results", params)
    rows = [read(ResultInfo, one) for one in itertools.islice(found, most)]
    if context.json:
        context.answer(rows)
    elif not rows:
        context.out.print("There are no such results.")
    else:
        columns = [("id", True), ("name", False), ("state", False), ("validity", False)]
        columns += [("host", True), ("processor time", True), ("sent", False)]
        context.table(columns, [_result_row(one) for one in rows])
    return len(rows)


def _result_row(one: ResultInfo) -> list[RenderableType]:
    spent = span(one.cpu_seconds) if one.cpu_seconds else ""
    host = str(one.host or "")
    found = "" if one.validate_state == "INIT" else _plainly(one.validate_state)
    return [str(one.id), one.name, _plainly(one.state), found, host, spent, local(one.sent_at)]


def _plainly(word: str | None) -> str:
    """A word of the law as people read it."""
    return words(word or "").lower()


# One of them


def show_thing(context: Context) -> int:
    """Carry out `show`."""
    given = context.options.which
    kind = given[0] if len(given) > 1 else None
    if kind not in {None, *_KINDS} or len(given) > 2:  # noqa: PLR2004  a kind and a name
        raise UsageError(f"{' '.join(given)!r} names nothing.", "say workunit NAME, or a name.")
    shown = {"batch": _show_batch, "workunit": _show_workunit, "result": _show_result}
    if kind is not None:
        shown[kind](context, given[1])
        return OK
    # What is no kind's name is tried as each; a number is an id, of a batch unless a kind is said.
    kinds = ["batch"] if given[0].isdecimal() else _KINDS
    for name in kinds:
        try:
            shown[name](context, given[0])
        except NotFoundError:
            continue
        if name == "batch" and not given[0].isdecimal():
            _tell_of_workunit(context, given[0])
        return OK
    detail, hint = f"You have no batch, workunit or result {given[0]!r}.", ""
    if given[0].isdecimal():
        detail = f"You have no batch {given[0]}."
        hint = f"say scientist show workunit {given[0]}, or show result {given[0]}; "
    hint += "scientist list shows your batches."
    raise NotFoundError(404, {"detail": detail, "hint": hint, "code": "not_found"})


def _tell_of_workunit(context: Context, name: str) -> None:
    if next(context.project.workunits(name=name), None) is not None:
        context.warn(f"this is the batch {name}; scientist show workunit {name} shows another.")


def _show_batch(context: Context, which: str) -> None:
    batch = context.batch(which)
    info = batch.refresh()
    cost = info.cost
    spent = f"{span(cost.cpu_seconds)} of processor time"
    rows: dict[str, RenderableType | None] = {
        "state": words(info.state),
        "submitted": local(info.created_at),
        "complete": local(info.completed_at) if info.completed_at else "",
        "expires": local(info.expire_at) if info.expire_at else "",
        "after": f"batch {info.after}" if info.after else "",
        "computed": f"{spent} in {count(cost.results, 'result')}",
        "credit": f"{cost.credit:,.2f}".replace(",", " "),
        "notes": ", ".join(f"{name}={value}" for name, value in info.meta.items()),
    }
    troubles = Troubles() if context.json else batch.troubles()
    shown = picture(info, info.progress, now(), troubles.waits)
    parts: list[RenderableType] = [shown, Text(), pairs(rows)]
    parts += [Text(f"\n{one}", style="red") for one in troubles.sentences]
    context.answer(info, Group(*parts))


def _find_workunit(context: Context, which: str) -> dict[str, Any]:
    """A workunit by its name, or its id.  Raises NotFoundError."""
    transport = context.project.transport
    found = next(transport.pages("workunits", {"name": which, "limit": 1}), None)
    if found is None and which.isdecimal():
        return dict(transport.get(f"workunits/{which}"))
    if found is None:
        detail = f"You have no workunit {which!r}."
        hint = "scientist list workunits BATCH shows their names."
        raise NotFoundError(404, {"detail": detail, "hint": hint, "code": "not_found"})
    return dict(transport.get(f"workunits/{found['id']}"))


def _show_workunit(context: Context, which: str) -> None:
    said = _find_workunit(context, which)
    told = context.project.transport.get(f"workunits/{said['id']}/timeline")
    one = read(WorkunitInfo, said)
    outputs = [entry if isinstance(entry, str) else entry["open_name"] for entry in said["outputs"]]
    inputs = [f"{entry['open_name']} ({nbytes(entry['nbytes'])})" for entry in said["input_files"]]
    rows: dict[str, RenderableType | None] = {
        "workunit": Text.assemble((one.name, "bold"), f"  ({one.id})"),
        "app": one.app,
        "batch": str(one.batch or ""),
        "status": painted(one.status),
        "errors": Text(", ".join(one.errors), style="red") if one.errors else None,
        "command line": one.command_line,
        "inputs": ", ".join(inputs),
        "outputs": ", ".join(outputs),
        "quorum": str(said.get("min_quorum", "")),
        "notes": ", ".join(f"{name}={value}" for name, value in one.meta.items()),
        "results": Text("\n").join(
            Text(f"{each['name']} ({each['id']}): {_state(each)}") for each in said["results"]
        ),
    }
    parts: list[RenderableType] = [pairs(rows), *_timeline(told)]
    context.answer({**said, **told}, Group(*parts))


def _state(result: dict[str, Any]) -> str:
    parts = [_plainly(result.get("state")), _plainly(result.get("validate_state"))]
    host = f" on host {result['host']}" if result.get("host") else ""
    return ", ".join(part for part in parts if part and part != "init") + host


def _timeline(told: dict[str, Any]) -> list[RenderableType]:
    parts: list[RenderableType] = []
    moves = told.get("timeline") or []
    if moves:
        parts += [Text("\ntimeline (UTC)", style="bold dim"), _steps(moves)]
    for reason in told.get("reasons") or ():
        parts.append(Text(f"\n{reason}"))
    return parts


def _steps(moves: list[dict[str, Any]]) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    for move in moves:
        table.add_row(
            Text(str(move["at"]).replace("T", " ")[:19], style="dim"),
            str(move.get("subject", "")),
            _move(move),
            Text(f"{move.get('because', '')} ({move.get('by', '')})", style="dim"),
        )
    return table


def _move(move: dict[str, Any]) -> Text:
    return Text(f"{move.get('axis', '')}: {move.get('source', '')} → {move.get('target', '')}")


def _show_result(context: Context, which: str) -> None:
    transport = context.project.transport
    if which.isdecimal():
        said = transport.get(f"results/{which}")
    else:
        workunit = _find_workunit(context, which.rpartition("_")[0] or which)
        named = [one["id"] for one in workunit["results"] if one["name"] == which]
        if not named:
            raise NotFoundError(404, {"detail": f"You have no result {which!r}."})
        said = transport.get(f"results/{named[0]}")
    one = read(ResultInfo, said)
    rows: dict[str, RenderableType | None] = {
        "result": Text.assemble((one.name, "bold"), f"  ({one.id})"),
        "state": _state(said),
        "sent": local(one.sent_at) if one.sent_at else "",
        "deadline": local(one.report_deadline) if one.report_deadline else "",
        "reported": local(one.received_at) if one.received_at else "",
        "exit status": "" if one.exit_status is None else str(one.exit_status),
        "processor time": span(one.cpu_seconds) if one.cpu_seconds else "",
        "credit": f"{one.credit:.2f}" if one.credit else "",
        "outputs": ", ".join(f"{file.open_name} ({nbytes(file.nbytes)})" for file in one.outputs),
    }
    parts: list[RenderableType] = [pairs(rows)]
    if one.stderr.strip():
        parts += [Text("\nstderr", style="bold dim"), Text(one.stderr.rstrip())]
    context.answer(said, Group(*parts))
