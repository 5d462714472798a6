"""How the commands read their options: a short help, errors that say what to do."""

from __future__ import annotations

import sys
from argparse import SUPPRESS
from difflib import get_close_matches
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from django.core.management.base import CommandParser

#: What every Django command has and nobody looks for in a daemon's help.
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


def prepare(parser: CommandParser) -> CommandParser:
    """Keep Django's own options out of the help, and make errors end with a hint."""
    for action in parser._actions:  # noqa: SLF001  argparse has no public way to hide an option
        if _DJANGO & set(action.option_strings):
            action.help = SUPPRESS

    def error(message: str) -> NoReturn:
        known = [name for action in parser._actions for name in action.option_strings]  # noqa: SLF001
        wrong = [word for word in message.split() if word.startswith("-")]
        near = get_close_matches(wrong[0], known, n=1) if wrong else []
        hint = "" if "Hint:" in message else _hint(parser.prog, near if "unrec" in message else [])
        sys.stderr.write(f"{parser.prog}: {message}{hint}\n")
        raise SystemExit(2)

    parser.error = error  # type: ignore[method-assign]  # Django's raises from call_command
    return parser


def _hint(prog: str, near: list[str]) -> str:
    if near:
        return f". Hint: did you mean {near[0]}?"
    return f". Hint: `{prog} --help` names the options."
