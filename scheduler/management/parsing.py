"""Option parsing for commands: a short help, and one-line errors with a hint."""

from __future__ import annotations

import re
import sys
from argparse import SUPPRESS
from difflib import get_close_matches
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError, CommandParser

#: Options of every Django command, which are hidden in the help.
_DJANGO = {
    "--version",
    "--verbosity",
    "--settings",
    "--pythonpath",
    "--traceback",
    "--no-color",
    "--force-color",
    "--skip-checks",
    "--with-parent",
}
#: `-5d` is parsed as a value, so that its option can report the error.
_NEGATIVE = re.compile(r"-\.?\d")


def prepare(parser: CommandParser) -> CommandParser:
    """Hide Django's own options in the help, and report errors in one line with a hint.

    The error omits the usage, which for many options would scroll that line off the screen.
    """
    for action in parser._actions:  # noqa: SLF001  argparse has no public way to hide an option
        if _DJANGO & set(action.option_strings):
            action.help = SUPPRESS
    parser._negative_number_matcher = _NEGATIVE  # noqa: SLF001  argparse has no public way to it

    def error(message: str) -> NoReturn:
        names = [name for action in parser._actions for name in action.option_strings]  # noqa: SLF001
        wrong = [word for word in message.split() if word.startswith("-")]
        near = get_close_matches(wrong[0], names, n=1) if wrong else []
        hint = "" if "Hint:" in message else _hint(parser.prog, near if "unrec" in message else [])
        if not getattr(parser, "called_from_command_line", True):
            msg = f"{message}{hint}"
            raise CommandError(msg)
        sys.stderr.write(f"{parser.prog}: {message}{hint}\n")
        raise SystemExit(2)

    parser.error = error  # type: ignore[method-assign]  # Django's writes the usage first
    return parser


class PlainCommand(BaseCommand):
    """A command that reports errors in one line with a hint, and has a short help."""

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return prepare(super().create_parser(prog_name, subcommand, **kwargs))


def _hint(prog: str, near: list[str]) -> str:
    if near:
        return f". Hint: did you mean {near[0]}?"
    return f". Hint: `{prog} --help` lists the options."
