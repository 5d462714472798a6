"""Configures the option parsers of commands, and parses option values."""

from __future__ import annotations

import json
import re
import sys
from argparse import SUPPRESS, ArgumentTypeError
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, NoReturn

from django.core.management.base import CommandError, CommandParser

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
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def prepare(parser: CommandParser) -> CommandParser:
    """Hide Django's options in the help, and report errors in one line with a hint.

    Errors omit the usage, because a long usage would scroll the error off the screen.  Returns the
    parser.
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

    parser.error = error  # type: ignore[method-assign]  # Django's method prints the usage first
    return parser


def _hint(prog: str, near: list[str]) -> str:
    if near:
        return f". Hint: did you mean {near[0]}?"
    return f". Hint: `{prog} --help` lists the options."


def duration(text: str) -> timedelta:
    """Parse a duration such as ``3d``; raise ArgumentTypeError for other text.

    >>> duration("3d"), duration("90min")
    (datetime.timedelta(days=3), datetime.timedelta(seconds=5400))
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h|d|w)\s*", text)
    if match is None:
        msg = f"{text!r} is not a duration. Hint: write 90s, 30min, 12h, 3d or 1w."
        raise ArgumentTypeError(msg)
    return timedelta(seconds=float(match[1]) * _UNITS[match[2]])


def moment(text: str) -> datetime:
    """Parse an ISO date or time; the default time zone is UTC.

    Raises ArgumentTypeError for other text.

    >>> moment("2027-01-31T12:00").isoformat()
    '2027-01-31T12:00:00+00:00'
    """
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        msg = f"{text!r} is not a time. Hint: write 2027-01-31 or 2027-01-31T12:00 (UTC)."
        raise ArgumentTypeError(msg) from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def json_object(text: str) -> dict[str, Any]:
    """Parse a JSON object; raise ArgumentTypeError for other text.

    >>> json_object('{"min_quorum": 2}')
    {'min_quorum': 2}
    """
    with suppress(ValueError):
        value = json.loads(text)
        if isinstance(value, dict):
            return value
    msg = f"{text!r:.80} is not a JSON object. Hint: write one, such as '{{\"min_quorum\": 2}}'."
    raise ArgumentTypeError(msg)
