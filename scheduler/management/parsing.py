"""How the commands read their options: a short help, errors that say what to do."""

from __future__ import annotations

import re
import sys
from argparse import SUPPRESS
from difflib import get_close_matches
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError, CommandParser

#: What every Django command has and nobody looks for in the help of one of ours.
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
#: `-5d` is a value, so that the option that takes it can say what is wrong with it.
_NEGATIVE = re.compile(r"-\.?\d")


def prepare(parser: CommandParser) -> CommandParser:
    """Hide Django's own options in the help; report mistakes in one line with a hint.

    The usage of a command with many options would push that line off the screen.
    """
    for action in parser._actions:  # noqa: SLF001  argparse has no public way to hide an option
        if _DJANGO & set(action.option_strings):
            action.help = SUPPRESS
    parser._negative_number_matcher = _NEGATIVE  # noqa: SLF001  argparse has no public way to it

    def error(message: str) -> NoReturn:
        known = [name for action in parser._actions for name in action.option_strings]  # noqa: SLF001
        wrong = [word for word in message.split() if word.startswith("-")]
        near = get_close_matches(wrong[0], known, n=1) if wrong else []
        hint = "" if "Hint:" in message else _hint(parser.prog, near if "unrec" in message else [])
        if not getattr(parser, "called_from_command_line", True):
            msg = f"{message}{hint}"
            raise CommandError(msg)
        sys.stderr.write(f"{parser.prog}: {message}{hint}\n")
        raise SystemExit(2)

    parser.error = error  # type: ignore[method-assign]  # Django's writes the usage first
    return parser


class PlainCommand(BaseCommand):
    """A command whose mistakes are one line with a hint, and whose help is short."""

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Make the parser."""
        return prepare(super().create_parser(prog_name, subcommand, **kwargs))


def _hint(prog: str, near: list[str]) -> str:
    if near:
        return f". Hint: did you mean {near[0]}?"
    return f". Hint: `{prog} --help` names the options."
