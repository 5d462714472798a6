"""Base classes of commands: text or JSON as output, one-line errors with a hint."""

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
    """A command that reports errors in one line with a hint, and has a short help."""

    #: Arguments of the parser, such as `epilog`.
    parser_options: ClassVar[Mapping[str, Any]] = {}

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return prepare(
            super().create_parser(prog_name, subcommand, **self.parser_options, **kwargs)
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """The output of a command: a sentence, the same as JSON facts, and warnings."""

    sentence: str
    facts: Mapping[str, Any]
    warnings: Sequence[str] = ()


class ShellActor(BaseCommand):
    """Attributes the audit entries of a command to the user who runs it."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        with audit.acting(name=shell_actor()):
            return super().execute(*args, **options)


class JsonCommand(ShellActor, PlainCommand):
    """A command that makes one call and prints its outcome.

    Success: one sentence on standard output, or one JSON object with ``--json``; warnings on
    standard error.  Refusal: its sentence and hint on standard error, exit status 1.
    """

    #: Exceptions of the operation that are reported as refusals.
    refusals: ClassVar[tuple[type[Exception], ...]] = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the command's own options and ``--json``."""
        self.add_options(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *_: Any, **options: Any) -> None:
        """Make the call and print its outcome."""
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
        """Add the positional argument `action`, which is one of `actions`."""
        names = tuple(actions)
        parser.add_argument("action", metavar="ACTION", choices=names, help=", ".join(names))

    @abstractmethod
    def add_options(self, parser: CommandParser) -> None:
        """Add the command's own options."""

    @abstractmethod
    def answer(self, options: Mapping[str, Any]) -> Answer:
        """Make the call and return its outcome."""


def require(condition: object, message: str, returncode: int = 2) -> None:
    """Raise CommandError if a condition is not true; exit status 2 is that of wrong options."""
    if not condition:
        raise CommandError(message, returncode=returncode)


def account_of(email: str) -> Account:
    """Return the account with this e-mail address; raises CommandError."""
    account = find_account_by_email(email)
    if account is None:
        msg = (
            f"No account has the e-mail address {email!r}. "
            "Hint: check the spelling, or create it with `manage.py create_account`."
        )
        raise CommandError(msg)
    return account


def optional_account(email: str | None) -> Account | None:
    """Return the account with this e-mail address, or None without one; raises CommandError."""
    return None if email is None else account_of(email)


def shell_actor() -> str:
    """Return the actor of a command for the audit log: `shell:<user>`."""
    try:
        return f"shell:{getpass.getuser()}"
    except (KeyError, OSError):  # a container may run under a number without a name
        return f"shell:{os.getuid()}"


def plural(count: int, noun: str) -> str:
    """Return a number with its noun in singular or plural.

    >>> plural(1, "workunit"), plural(2000, "workunit")
    ('1 workunit', '2 000 workunits')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}".replace(",", " ")
