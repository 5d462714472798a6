"""The commands `search` and `submit-query`: lists with a filter, work from them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from scientist.commands.context import Context
from scientist.commands.options import Commands, positive
from scientist.errors import UsageError
from scientist.words import count

_DEFAULT_LIMIT = 100
_LISTS = ("workunits", "results", "hosts", "queues", "batches")
_SOURCES = ("workunits", "results", "hosts")


def describe(commands: Commands) -> None:
    """Add `search` and `submit-query` to the parser."""
    search = commands.add("search", search_things, help="list rows that match a filter")
    search.add_argument("what", choices=_LISTS)
    text = """a JSON object, as '{"status": "failed"}', or a file with one"""
    search.add_argument("filter", metavar="FILTER", help=text)
    text = f"at most N rows (default {_DEFAULT_LIMIT})"
    search.add_argument("--limit", type=positive, metavar="N", default=_DEFAULT_LIMIT, help=text)
    submit = commands.add(
        "submit-query", submit_query, help="submit a workunit for each row, line or object"
    )
    add = submit.add_argument
    add("app", metavar="APP", help="app of the workunits")
    text = "a JSON object with the fields of a workunit; document.NAME stands for a field"
    add("--template", metavar="FILE", required=True, help=text)
    source = submit.add_mutually_exclusive_group(required=True)
    source.add_argument("--csv", metavar="FILE", help="lines of values; the first has names")
    source.add_argument("--lines", metavar="FILE", help="a JSON object per line")
    source.add_argument("--from", dest="source", choices=_SOURCES, help="rows of this list")
    add("--filter", metavar="FILTER", help="--from: only rows that match this filter")
    add("--batch", metavar="NAME", help="name of the batch")
    add("--dry-run", action="store_true", help="only show what would be submitted")


def search_things(context: Context) -> None:
    options = context.options
    expression = json.dumps(_object(options.filter))
    rows = list(itertools.islice(context.project.search(options.what, expression), options.limit))
    columns = ["id>", "name", "state"]
    context.listing(rows, columns, _row, f"No {options.what} match.")


def _row(entry: dict[str, Any]) -> list[RenderableType]:
    state = entry.get("status") or entry.get("state") or ""
    return [str(entry["id"]), Text(str(entry.get("name") or "")), str(state)]


def submit_query(context: Context) -> None:
    options = context.options
    if options.filter and not options.source:
        raise UsageError("--filter is given without --from.", "write --from workunits.")
    source: dict[str, Any]
    if options.csv:
        source = {"csv": _text(options.csv)}
    elif options.lines:
        source = {"json_lines": _text(options.lines)}
    else:
        source = {options.source: _object(options.filter) if options.filter else {}}
    answer = context.project.submit_from_query(
        options.app,
        source,
        _object(options.template),
        batch=options.batch,
        dry_run=options.dry_run,
    )
    number = count(answer["count"], "workunit")
    if not options.dry_run:
        context.answer(answer, f"submitted {number} in batch {answer['batch']['name']}")
        return
    shown = "".join(f"\n{json.dumps(fields)}" for fields in answer["workunits"])
    context.answer(answer, f"{number} would be submitted; the first are{shown}")


def _object(text: str) -> dict[str, Any]:
    """Return the JSON object in an argument, or in the file that it names; raises UsageError."""
    content = text if text.lstrip().startswith("{") else _text(text)
    try:
        value = json.loads(content)
    except ValueError as error:
        raise UsageError(f"{text:.60} is not JSON: {error}", "write a JSON object.") from error
    if not isinstance(value, dict):
        raise UsageError(f"{text:.60} is not a JSON object.", 'write {"name": "value"}.')
    return value


def _text(name: str) -> str:
    try:
        return Path(name).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        hint = "name a file in UTF-8, or write the JSON object itself."
        raise UsageError(f"{name} cannot be read: {error}", hint) from error
