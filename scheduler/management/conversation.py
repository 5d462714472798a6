"""How commands converse: one sentence, or JSON, and refusals that say what to do."""

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
    """What a command says when it is done: a sentence, the same as facts, and warnings."""

    sentence: str
    facts: Mapping[str, Any]
    warnings: Sequence[str] = field(default_factory=tuple)


class Conversation(PlainCommand):
    """A command that makes one call and says what came of it.

    Success: one sentence on standard output, or one JSON object with ``--json``; warnings on
    standard error.  A refusal: its sentence and hint on standard error, exit status 1.
    """

    #: The refusals of the operation that the command calls.
    refusals: ClassVar[tuple[type[Exception], ...]] = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add ``--json`` and what the command itself asks."""
        self.ask(parser)
        parser.add_argument("--json", action="store_true", help="answer with one JSON object")

    def handle(self, *_: Any, **options: Any) -> None:
        """Make the call; say what came of it."""
        try:
            with audit.acting(name=shell_actor()):
                answer = self.answer(options)
        except self.refusals as error:
            raise CommandError(str(error)) from error
        for warning in answer.warnings:
            self.stderr.write(f"Warning: {warning}")
        if options["json"]:
            said = dict(answer.facts) | {"warnings": list(answer.warnings)}
            self.stdout.write(json.dumps(said, default=str))
        else:
            self.stdout.write(answer.sentence)

    @abstractmethod
    def ask(self, parser: CommandParser) -> None:
        """Add the command's own arguments."""

    @abstractmethod
    def answer(self, options: Mapping[str, Any]) -> Answer:
        """Make the one call into `operations`."""


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
    """Read a duration as people write it; for argparse.

    >>> duration("3d"), duration("90min")
    (datetime.timedelta(days=3), datetime.timedelta(seconds=5400))
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h|d|w)\s*", text)
    if found is None:
        msg = f"{text!r} is no duration. Hint: write 90s, 30min, 12h, 3d or 1w."
        raise ArgumentTypeError(msg)
    return timedelta(seconds=float(found[1]) * _UNITS[found[2]])


def moment(text: str) -> datetime:
    """Read a moment, UTC unless it names its zone; for argparse.

    >>> moment("2027-01-31T12:00").isoformat()
    '2027-01-31T12:00:00+00:00'
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        msg = f"{text!r} is no moment. Hint: write 2027-01-31 or 2027-01-31T12:00 (UTC)."
        raise ArgumentTypeError(msg) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def json_object(text: str) -> dict[str, Any]:
    """Read a JSON object; for argparse.

    >>> json_object('{"min_quorum": 2}')
    {'min_quorum': 2}
    """
    with suppress(ValueError):
        found = json.loads(text)
        if isinstance(found, dict):
            return found
    msg = f"{text!r:.80} is no JSON object. Hint: write one, such as '{{\"min_quorum\": 2}}'."
    raise ArgumentTypeError(msg)


def plural(count: int, noun: str) -> str:
    """Count things.

    >>> plural(1, "workunit"), plural(2000, "workunit")
    ('1 workunit', '2 000 workunits')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}".replace(",", " ")
