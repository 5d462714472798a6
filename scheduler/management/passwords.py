"""Reads a command's password from a file, the environment, an option or a prompt."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from getpass import getpass
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

VARIABLE = "MANYHANDS_PASSWORD"
STDIN = "-"
#: Maximum number of characters that are read from a password file.
MAX_FILE_CHARACTERS = 4096
VISIBLE = (
    "other users of this machine can read --password in the list of processes.\n"
    f"Hint: use --password-file FILE, --password-file - or the variable {VARIABLE}."
)


def add_password_options(parser: CommandParser) -> None:
    """Add ``--password-file`` and ``--password``."""
    password_group = parser.add_mutually_exclusive_group()
    password_group.add_argument(
        "--password-file",
        metavar="FILE",
        help=f"a file whose first line is the password, or - for standard input "
        f"(default: ${VARIABLE}, or a prompt)",
    )
    password_group.add_argument(
        "--password",
        help="the password; other users of the machine can see it in the list of processes",
    )


def read_password(options: Mapping[str, Any], *, prompt: str) -> str:
    """Return the password from the options, the environment variable or a prompt.

    Prints a warning for ``--password``.  Raises CommandError if the password file cannot be read or
    its first line is empty, or if there is no password and standard input is not a terminal.
    """
    if (path := options.get("password_file")) is not None:
        return _first_line(path)
    if (password := options.get("password")) is not None:
        sys.stderr.write(f"Warning: {VISIBLE}\n")
        return str(password)
    if password := os.environ.get(VARIABLE):
        return password
    if not sys.stdin.isatty():
        raise CommandError(
            "The password is missing.\n"
            f"Hint: use --password-file FILE, --password-file - or the variable {VARIABLE}."
        )
    return getpass(prompt)


def _first_line(path: str) -> str:
    try:
        if path == STDIN:
            text = sys.stdin.read(MAX_FILE_CHARACTERS)
        else:
            with Path(path).open(encoding="utf-8") as file:
                text = file.read(MAX_FILE_CHARACTERS)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(
            f"{path} cannot be read: {error}.\nHint: put the password into its first line."
        ) from None
    password = text.partition("\n")[0].removesuffix("\r")
    if not password:
        raise CommandError(
            f"The first line of {path} is empty.\nHint: put the password into its first line."
        )
    return password
