"""Options that several commands share, and parsers of their values."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from scientist.commands.context import Context
from scientist.errors import UsageError
from scientist.words import duration, size

#: The function of a command, which returns the exit code, or None for success.
Run = Callable[[Context], int | None]

#: Options of workunits, which are also arguments of `Project.batch` and keys of `fields_of`.
_WORKUNIT_FIELDS = (
    *("quorum", "max_errors", "deadline", "takes", "fpops", "memory", "disk", "cpus", "gpus"),
)


@dataclass(frozen=True, slots=True)
class Commands:
    """Adds commands to a parser.

    `subparsers` is the object from `add_subparsers`.  `common` has the options of all commands.
    """

    subparsers: Any
    common: argparse.ArgumentParser

    def add(self, name: str, run: Run, **options: Any) -> argparse.ArgumentParser:
        """Add a command; `options` are passed to `add_parser`."""
        command: argparse.ArgumentParser
        command = self.subparsers.add_parser(name, parents=[self.common], **options)
        command.set_defaults(command=run)
        return command

    def group(self, name: str, **options: Any) -> Commands:
        """Add a command with subcommands; return the object that adds the subcommands."""
        command = self.subparsers.add_parser(name, parents=[self.common], **options)
        inner = command.add_subparsers(title="commands", metavar="COMMAND", required=True)
        return Commands(inner, self.common)


def add_quorum_options(group: argparse._ArgumentGroup) -> None:
    """Add the options for the quorum, the error limit and the deadline of a workunit."""
    group.add_argument("--quorum", type=positive, metavar="N", help="results that must agree")
    text = "maximum number of failed results; with more, the workunit fails (default 3)"
    group.add_argument("--max-errors", type=non_negative, metavar="N", help=text)
    text = "time that a computer has for a result, such as 12h or 3d"
    text += ", or inf in a trusted queue"
    group.add_argument("--deadline", type=_deadline, metavar="T", help=text)


def _deadline(text: str) -> timedelta | str:
    return text if text == "inf" else duration(text)


def add_resource_options(group: argparse._ArgumentGroup) -> None:
    """Add the options for the run time and the resources of a workunit."""
    text = "run time on a typical computer, such as 10min"
    group.add_argument("--takes", type=duration, metavar="T", help=text)
    text = "run time as a number of floating-point operations"
    group.add_argument("--fpops", type=float, metavar="N", help=text)
    text = "maximum memory of the program, such as 2GB"
    group.add_argument("--memory", type=size, metavar="SIZE", help=text)
    text = "maximum disk space of the program, such as 10GB"
    group.add_argument("--disk", type=size, metavar="SIZE", help=text)
    text = "CPUs that the program uses (default: those of the app version)"
    group.add_argument("--cpus", type=float, metavar="N", help=text)
    text = "GPUs that the program uses (default: those of the app version)"
    group.add_argument("--gpus", type=float, metavar="N", help=text)


def workunit_fields(options: argparse.Namespace) -> dict[str, Any]:
    """Return the workunit options and ``--output`` as an argument of `fields_of`."""
    fields = {name: getattr(options, name) for name in _WORKUNIT_FIELDS}
    return fields | {"outputs": [_output(text) for text in options.output or ()] or None}


def _output(text: str) -> str | dict[str, Any]:
    """Parse ``NAME`` or ``NAME:SIZE``.  Raises UsageError."""
    name, colon, length = text.rpartition(":")
    return {"open_name": name, "max_nbytes": size(length)} if colon and name else text


def non_negative(text: str) -> int:
    """Parse a whole number of at least 0.  Raises UsageError."""
    if not text.isdecimal():
        raise UsageError(f"{text!r} is not a whole number of at least 0.", "write 0, 1, 2 ...")
    return int(text)


def positive(text: str) -> int:
    """Parse a whole number of at least 1.  Raises UsageError."""
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{text!r} is not a whole number of at least 1.", "write 1, 2, 3 ...")
    return int(text)
