"""Base class of commands: one sentence or JSON as output, and errors with a hint."""

from __future__ import annotations

import getpass
import json
import os
import re
from abc import abstractmethod
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast

from django.core.management.base import CommandError, CommandParser

from scheduler.management.parsing import PlainCommand
from scheduler.people import audit

Handle = TypeVar("Handle", bound=Callable[..., Any])

_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


@dataclass(frozen=True, slots=True)
class Answer:
    """The output of a command: a sentence, the same as JSON facts, and warnings."""

    sentence: str
    facts: Mapping[str, Any]
    warnings: Sequence[str] = field(default_factory=tuple)


class Conversation(PlainCommand):
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
            with audit.acting(name=shell_actor()):
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

    @abstractmethod
    def add_options(self, parser: CommandParser) -> None:
        """Add the command's own options."""

    @abstractmethod
    def answer(self, options: Mapping[str, Any]) -> Answer:
        """Make the call and return its outcome."""


def shell_actor() -> str:
    """Return the actor of a command for the audit log: `shell:<user>`."""
    try:
        return f"shell:{getpass.getuser()}"
    except (KeyError, OSError):  # a container may run under a number without a name
        return f"shell:{os.getuid()}"


def as_shell(handle: Handle) -> Handle:
    """Attribute the audit entries of a command's `handle` to the user who runs it."""

    @wraps(handle)
    def attributed(*args: Any, **options: Any) -> object:
        with audit.acting(name=shell_actor()):
            return handle(*args, **options)

    return cast("Handle", attributed)


def duration(text: str) -> timedelta:
    """Parse a duration such as ``3d``; for argparse.

    >>> duration("3d"), duration("90min")
    (datetime.timedelta(days=3), datetime.timedelta(seconds=5400))
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h|d|w)\s*", text)
    if match is None:
        msg = f"{text!r} is not a duration. Hint: write 90s, 30min, 12h, 3d or 1w."
        raise ArgumentTypeError(msg)
    return timedelta(seconds=float(match[1]) * _UNITS[match[2]])


def moment(text: str) -> datetime:
    """Parse an ISO date or time, UTC unless it has a time zone; for argparse.

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
    """Parse a JSON object; for argparse.

    >>> json_object('{"min_quorum": 2}')
    {'min_quorum': 2}
    """
    with suppress(ValueError):
        value = json.loads(text)
        if isinstance(value, dict):
            return value
    msg = f"{text!r:.80} is not a JSON object. Hint: write one, such as '{{\"min_quorum\": 2}}'."
    raise ArgumentTypeError(msg)


def plural(count: int, noun: str) -> str:
    """Return a number with its noun in singular or plural.

    >>> plural(1, "workunit"), plural(2000, "workunit")
    ('1 workunit', '2 000 workunits')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}".replace(",", " ")
