"""The `scientist` command: parses the command line and reports errors."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from typing import Any, NoReturn

from scientist import __version__
from scientist.commands import (
    access,
    apps,
    bundles,
    changing,
    figures,
    history,
    hosts,
    listing,
    queues,
    searching,
    submitting,
    watching,
)
from scientist.commands.context import OK, Context
from scientist.commands.options import Commands, Run
from scientist.errors import ScientistError, UsageError

FAILED = 1
_EPILOG = """\
exit codes: 0 success, 1 local error, 2 wrong usage, 3 no answer from the
project, 4 refused by the project, 5 not found, 6 workunits failed, 7 not
logged in
"""


#: With this pattern, argparse parses `-5d` as a value, and the type of the option reports the
#: error.
_NEGATIVE = re.compile(r"-\.?\d")


class _Parser(argparse.ArgumentParser):
    """An argument parser that reports an error in one line with a hint, without the usage."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._negative_number_matcher = _NEGATIVE
        # The parser of the last subcommand replaces those of the commands before it.
        self.set_defaults(command_parser=self)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:  # noqa: ANN401  argparse's own
        try:
            return super()._get_value(action, arg_string)
        except UsageError as error:
            raise argparse.ArgumentError(action, f"{error.sentence} Hint: {error.hint}") from None

    def error(self, message: str) -> NoReturn:
        """Print one line to stderr and exit with code 2."""
        hint = "" if "Hint:" in message else f". Hint: `{self.prog} --help` shows all options."
        wrong = [word for word in message.split() if word.startswith("--")]
        if message.startswith("unrecognized") and wrong:
            options = [option for action in self._actions for option in action.option_strings]
            for near in get_close_matches(wrong[0], options, n=1):
                hint = f". Hint: did you mean {near}?"
        self.exit(2, f"{self.prog}: {message}{hint}\n")


def parser() -> argparse.ArgumentParser:
    """Return the parser with all commands and options."""
    top = _Parser(
        prog="scientist",
        description="Submit work to a Manyhands project, watch it and fetch its results.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _describe_common(top, None, is_json=False)
    top.add_argument("--version", action="version", version=f"scientist {__version__}")
    common = argparse.ArgumentParser(add_help=False)
    # These options have no defaults, which would override options given before the command.
    _describe_common(common, argparse.SUPPRESS, is_json=argparse.SUPPRESS)
    subparsers = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (
        access,
        apps,
        hosts,
        queues,
        bundles,
        searching,
        submitting,
        watching,
        listing,
        history,
        changing,
        figures,
    ):
        module.describe(Commands(subparsers, common))
    return top


def _describe_common(
    parser: argparse.ArgumentParser, default: str | None, *, is_json: bool | str
) -> None:
    parser.add_argument(
        "--url", metavar="URL", default=default,
        help="address of the project (default: $MANYHANDS_URL, or the address of the last login)",
    )  # fmt: skip
    tokens = parser.add_mutually_exclusive_group()
    tokens.add_argument(
        "--token-file", metavar="FILE", default=default,
        help="file with the token in its first line, - for standard input "
        "(default: $MANYHANDS_TOKEN, or the token of the stored login)",
    )  # fmt: skip
    tokens.add_argument(
        "--token", metavar="T", default=default,
        help="the token; other users of this computer see it in ps",
    )  # fmt: skip
    parser.add_argument(
        "--json", action="store_true", default=is_json,
        help="print the answer as JSON",
    )  # fmt: skip


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse a command line; options may be before, between and after the positional arguments.

    argparse itself accepts no more names after an option that follows the first names.
    """
    top = parser()
    if not (sys.argv[1:] if arguments is None else arguments):
        top.print_help(sys.stderr)
        top.exit(2)
    options, rest = top.parse_known_args(arguments)
    ends = rest.index("--") if "--" in rest else len(rest)
    names = rest[:ends] + rest[ends + 1 :]
    target = getattr(options, "extra_names_target", None)
    if names and (target is None or any(word.startswith("-") for word in rest[:ends])):
        options.command_parser.error(f"unrecognized arguments: {' '.join(names)}")
    if names and target:
        setattr(options, target, [*(getattr(options, target) or ()), *names])
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    options = parse(arguments)
    run: Run = options.command
    try:
        with ExitStack() as stack:
            return run(Context(options, stack)) or OK
    except ScientistError as error:
        return _print_error(error, as_json=options.json)
    except BrokenPipeError:
        # The reader of stdout has exited; with /dev/null, Python's flush at exit does not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        return _print_error(ScientistError(str(error)), as_json=options.json)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _print_error(error: ScientistError, *, as_json: bool) -> int:
    text = json.dumps(error.as_json(), ensure_ascii=False) if as_json else f"scientist: {error}"
    print(text, file=sys.stderr)
    return error.exit_code
