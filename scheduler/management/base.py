"""Base classes of commands with text or JSON output and one-line errors."""

from __future__ import annotations

import getpass
import json
import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduler.management.parsing import prepare
from scheduler.models import Account
from scheduler.people import audit
from scheduler.people.accounts import find_account_by_email


class PlainCommand(BaseCommand):
    """A command that reports errors in one line with a hint, and hides Django's options."""

    # Django's checks load all templates and URLs, which takes longer than most commands.  They
    # check code, in `make check`; `manage.py doctor` checks an installation.
    requires_system_checks: list[str] | tuple[str, ...] = ()
    #: Arguments of the parser, such as `epilog`.
    parser_options: ClassVar[Mapping[str, Any]] = {}

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return prepare(
            super().create_parser(prog_name, subcommand, **self.parser_options, **kwargs)
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """The output of a command: a sentence, the data for ``--json``, and warnings."""

    sentence: str
    facts: Mapping[str, Any]
    warnings: Sequence[str] = ()


class ShellActor(BaseCommand):
    """A command whose audit entries name the operating-system user that runs it."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        with audit.acting(name=shell_actor()):
            return super().execute(*args, **options)


class JsonCommand(ShellActor, PlainCommand):
    """A command that calls one operation and prints the outcome.

    On success it prints a sentence, or one JSON object with ``--json``; warnings go to standard
    error.  For an exception in `refusals` it prints the message and hint on standard error; the
    exit status is 1.
    """

    #: Exceptions of the operation whose message is the error of the command.
    refusals: ClassVar[tuple[type[Exception], ...]] = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the command's own options and ``--json``."""
        self.add_options(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *_: Any, **options: Any) -> None:
        """Call `answer` and print the output."""
        try:
            answer = self.answer(options)
        except self.refusals as error:
            raise CommandError(str(error)) from error
        for warning in answer.warnings:
            self.stderr.write(f"Warning: {warning}")
        if options["json"]:
            facts = dict(answer.facts) | {"warnings": list(answer.warnings)}
            self.stdout.write(json.dumps(facts, default=str))
        else:
            self.stdout.write(answer.sentence)

    def add_action(self, parser: CommandParser, actions: Iterable[str]) -> None:
        """Add the positional argument `action`, whose choices are `actions`."""
        names = tuple(actions)
        parser.add_argument("action", metavar="ACTION", choices=names, help=", ".join(names))

    @abstractmethod
    def add_options(self, parser: CommandParser) -> None:
        """Add the command's own options."""

    @abstractmethod
    def answer(self, options: Mapping[str, Any]) -> Answer:
        """Call the operation and return the output."""


def require(condition: object, message: str, returncode: int = 2) -> None:
    """Raise CommandError unless the condition is true.

    `returncode` is the exit status; argparse also exits with 2 for wrong options.
    """
    if not condition:
        raise CommandError(message, returncode=returncode)


def account_of(email: str) -> Account:
    """Return the account with this e-mail address, or raise CommandError."""
    account = find_account_by_email(email)
    if account is None:
        msg = (
            f"No account has the e-mail address {email!r}. "
            "Hint: check the spelling, or create it with `manage.py create_account`."
        )
        raise CommandError(msg)
    return account


def optional_account(email: str | None) -> Account | None:
    """Return `account_of(email)`, or None if `email` is None."""
    return None if email is None else account_of(email)


def shell_actor() -> str:
    """Return the actor of a command for the audit log: `shell:<user>`."""
    try:
        return f"shell:{getpass.getuser()}"
    except (KeyError, OSError):  # a container may run under a user id without a name
        return f"shell:{os.getuid()}"


def plural(count: int, noun: str) -> str:
    """Return a number with its noun in singular or plural.

    >>> plural(1, "workunit"), plural(2000, "workunit")
    ('1 workunit', '2 000 workunits')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}".replace(",", " ")
