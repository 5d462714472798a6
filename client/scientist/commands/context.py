"""The context of a command: its project, and output as text or as JSON."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, is_dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from scientist.batches import Batch
from scientist.errors import UsageError
from scientist.project import Project

Item = TypeVar("Item")

OK, FAILED_WORKUNITS = 0, 6
_MIN_TABLE_WIDTH = 200
#: A heading with this ending aligns its column to the right; the ending is not printed.
_RIGHT = ">"


def first_line(name: str) -> str:
    """Return the first line of a file, or of standard input if `name` is ``-``.

    Raises UsageError if the file cannot be read or the line is empty.
    """
    try:
        if name == "-":
            line = sys.stdin.readline()
        else:
            with Path(name).expanduser().open(encoding="utf-8") as file:
                line = file.readline()
    except (OSError, UnicodeDecodeError) as error:
        hint = "write the secret in the first line, in UTF-8."
        raise UsageError(f"{name} cannot be read: {error}", hint) from error
    line = line.rstrip("\r\n")
    if not line:
        raise UsageError(f"The first line of {name} is empty.", "write the secret there.")
    return line


class Context:
    """The options, the project and the output of one run of a command."""

    def __init__(self, options: argparse.Namespace, stack: ExitStack) -> None:
        self.options = options
        if options.token_file:
            options.token = first_line(options.token_file)
        self.json = bool(options.json)
        self.out = Console(highlight=False, soft_wrap=True)
        self.err = Console(stderr=True, highlight=False, soft_wrap=True)
        self._stack = stack

    @cached_property
    def project(self) -> Project:
        """The project of the options --url and --token, or of their defaults."""
        return self._stack.enter_context(Project(self.options.url, self.options.token))

    def batch(self, which: str) -> Batch:
        """Return a batch by its id or name.  Raises NotFoundError.

        A number is looked up as an id first.  If another batch has this number as its name, a
        warning is printed.
        """
        batch = self.project.find_batch(which)
        if batch.name != which:
            for other in itertools.islice(self.project.batches(name=which), 1):
                self.warn(f"this is batch {batch.id}; the batch named {which} is {other.id}.")
        return batch

    @property
    def is_live(self) -> bool:
        """Whether output goes to a terminal and is not JSON, so that bars can be drawn."""
        return self.out.is_terminal and not self.json

    def answer(self, facts: object, text: RenderableType | None = None) -> None:
        """Print `facts` as a JSON document if --json is set, else `text`, unless it is None."""
        if self.json:
            print(as_json(facts), flush=True)
        elif text is not None:
            self.out.print(text)

    def line(self, facts: object) -> None:
        """Print a JSON object on one line, for commands that print several objects."""
        print(as_json(facts, indent=None), flush=True)

    def warn(self, sentence: str) -> None:
        """Print a warning to stderr, unless --json is set."""
        if not self.json:
            self.err.print(Text(f"warning: {sentence}", style="yellow"))

    def listing(
        self,
        items: Sequence[Item],
        columns: Sequence[str],
        row: Callable[[Item], Sequence[RenderableType]],
        empty: str,
    ) -> None:
        """Print items as JSON if --json is set, else as a table.

        `row` returns the cells of an item.  If there are no items, `empty` is printed instead of a
        table.
        """
        if self.json or not items:
            self.answer(items, empty)
        else:
            self.table(columns, map(row, items))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[RenderableType]]) -> None:
        """Print rows as a table on a terminal, and as columns of plain text elsewhere.

        `columns` are the headings; a column is aligned to the right if its heading ends with ``>``.
        """
        if self.out.is_terminal:
            table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold dim")
            for heading in columns:
                justify: JustifyMethod = "right" if heading.endswith(_RIGHT) else "left"
                table.add_column(heading.rstrip(_RIGHT), justify=justify, no_wrap=True)
            for row in rows:
                table.add_row(*row)
            # On a narrow terminal, lines wrap instead of names being cut off.
            Console(highlight=False, width=max(self.out.width, _MIN_TABLE_WIDTH)).print(table)
            return
        print("\n".join(_plain(columns, [[str(cell) for cell in row] for row in rows])))

    def confirm(self, question: str) -> bool:
        """Return True if --yes is set, or if the user answers the question with yes.

        Raises UsageError if --yes is missing and the user cannot be asked, because stdin is not a
        terminal or --json is set.
        """
        if self.options.yes:
            return True
        if not sys.stdin.isatty() or self.json:
            raise UsageError(question, "add --yes to confirm.")
        self.out.print(Text(f"{question} [y/N] "), end="")
        return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _plain(columns: Sequence[str], rows: list[list[str]]) -> list[str]:
    lines = [[heading.rstrip(_RIGHT) for heading in columns], *rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    sides = [">" if heading.endswith(_RIGHT) else "<" for heading in columns]
    cells = "  ".join(f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True))
    return [cells.format(*line).rstrip() for line in lines]


def about(batch: Batch) -> dict[str, Any]:
    """Return the id and the name of a batch as an object for the JSON output."""
    return {"batch": {"id": batch.id, "name": batch.name}}


def as_json(facts: object, indent: int | None = 2) -> str:
    """Return facts as a JSON document, with dataclasses as objects and times in ISO 8601."""
    return json.dumps(facts, indent=indent, default=_jsonable, ensure_ascii=False)


def _jsonable(value: object) -> Any:  # noqa: ANN401  any JSON
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return str(value)
