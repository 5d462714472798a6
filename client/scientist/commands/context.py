"""What all commands share: the project, and how they speak: to people or as JSON."""

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

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from scientist.batches import Batch
from scientist.errors import UsageError
from scientist.project import Project

Kind = TypeVar("Kind")

OK, FAILED_WORKUNITS = 0, 6
#: What two commands ask of workunits.
HELP = {
    "max_errors": "errors that are borne; a workunit gives up at error N+1 (default 3)",
    "deadline": "how long a computer may keep one, such as 12h or 3d",
    "takes": "how long one takes on a usual computer, such as 10min",
    "fpops": "or that in floating-point operations",
    "memory": "the most that one needs, such as 2GB",
    "disk": "the same, such as 10GB",
}
_WIDEST = 200
#: A column: its heading, and whether it stands to the right.
Column = tuple[str, bool]


def first_line(name: str) -> str:
    """Read the first line of a file, or of standard input if its name is -. Raises UsageError."""
    try:
        if name == "-":
            line = sys.stdin.readline()
        else:
            with Path(name).expanduser().open(encoding="utf-8") as file:
                line = file.readline()
    except (OSError, UnicodeDecodeError) as error:
        hint = "its first line is the secret, in UTF-8."
        raise UsageError(f"{name} cannot be read: {error}", hint) from error
    line = line.rstrip("\r\n")
    if not line:
        raise UsageError(f"The first line of {name} is empty.", "write the secret there.")
    return line


class Context:
    """One run of a command."""

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
        """The project that is meant, by the token that is known."""
        return self._stack.enter_context(Project(self.options.url, self.options.token))

    def batch(self, which: str) -> Batch:
        """The batch that is meant by an id or a name.  Raises NotFoundError.

        An id goes before a name that is a number; whom it leads astray is told.
        """
        found = self.project.find_batch(which)
        if found.name != which:
            for other in itertools.islice(self.project.batches(name=which), 1):
                self.warn(f"this is batch {found.id}; the batch named {which} is {other.id}.")
        return found

    @property
    def is_live(self) -> bool:
        """Whether there is a person before a terminal, who wants to see things move."""
        return self.out.is_terminal and not self.json

    def answer(self, facts: object, said: RenderableType | None = None) -> None:
        """Say what came of it: to people `said`, to programs the facts as one JSON document."""
        if self.json:
            print(as_json(facts), flush=True)
        elif said is not None:
            self.out.print(said)

    def line(self, facts: object) -> None:
        """One JSON object on one line, for answers that go on."""
        print(as_json(facts, indent=None), flush=True)

    def warn(self, sentence: str) -> None:
        """Say something that is not the answer."""
        if not self.json:
            self.err.print(Text(f"warning: {sentence}", style="yellow"))

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[RenderableType]]) -> None:
        """Show rows: on a terminal a table, elsewhere plain columns that are never cut."""
        if self.out.is_terminal:
            table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold dim")
            for heading, right in columns:
                table.add_column(heading, justify="right" if right else "left", no_wrap=True)
            for row in rows:
                table.add_row(*row)
            # Wider than a narrow terminal, rather than with names cut off.
            Console(highlight=False, width=max(self.out.width, _WIDEST)).print(table)
            return
        print("\n".join(_plain(columns, [[str(one) for one in row] for row in rows])))

    def confirm(self, question: str) -> bool:
        """Ask a person; without one, `--yes` must have been said.  Raises UsageError."""
        if self.options.yes:
            return True
        if not sys.stdin.isatty() or self.json:
            raise UsageError(question, "say --yes to do it.")
        self.out.print(Text(f"{question} [y/N] "), end="")
        return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _plain(columns: Sequence[Column], rows: list[list[str]]) -> list[str]:
    lines = [[heading for heading, _ in columns], *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]

    def cell(text: str, width: int, *, right: bool) -> str:
        return text.rjust(width) if right else text.ljust(width)

    return [
        "  ".join(
            cell(text, width, right=right)
            for text, width, (_, right) in zip(line, widths, columns, strict=True)
        ).rstrip()
        for line in lines
    ]


def as_json(facts: object, indent: int | None = 2) -> str:
    """Facts as JSON: dataclasses as objects, moments in ISO 8601."""
    return json.dumps(facts, indent=indent, default=_jsonable, ensure_ascii=False)


def _jsonable(one: object) -> Any:  # noqa: ANN401  any JSON
    if is_dataclass(one) and not isinstance(one, type):
        return asdict(one)
    if isinstance(one, datetime):
        return one.isoformat().replace("+00:00", "Z")
    return str(one)


def typed(read: Callable[[str], Kind]) -> Callable[[str], Kind]:
    """A reader of texts for argparse, which shows its sentence and hint."""

    def reading(text: str) -> Kind:
        try:
            return read(text)
        except UsageError as error:
            raise argparse.ArgumentTypeError(f"{error.sentence} Hint: {error.hint}") from None

    return reading


def whole(text: str) -> int:
    """Read a whole number from 0."""
    if not text.isdecimal():
        raise UsageError(f"{text!r} is no whole number from 0.", "write 0, 1, 2 ...")
    return int(text)


def positive(text: str) -> int:
    """Read a whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{text!r} is no whole number from 1.", "write 1, 2, 3 ...")
    return int(text)
