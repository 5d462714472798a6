"""Switches a rule off, by replacing Python code or the text of a SQL statement."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

#: Packages whose modules may have imported a replaced object.
OURS = ("scheduler", "daemons", "project", "demo", "volunteer", "scientist")


class SwitchDoesNotFit(Exception):
    """The code or statement that a switch names is gone. Hint: update the table."""


@dataclass(frozen=True, slots=True)
class Code:
    """Replaces a function, method or constant, named as `module:dotted.name`.

    The replacement is `value`, or the result of `made(original)`.
    """

    where: str
    value: Any = None
    made: Callable[[Any], Any] | None = None

    def off(self) -> None:
        """Replace the object in its module and in all modules that imported it."""
        module_name, _, path = self.where.partition(":")
        *outer, name = path.split(".")
        home: Any = import_module(module_name)
        for each in outer:
            home = getattr(home, each)
        if not hasattr(home, name):
            raise SwitchDoesNotFit(self.where)
        original = getattr(home, name)
        replacement = self.made(original) if self.made is not None else self.value
        setattr(home, name, replacement)
        if callable(original) and not outer:
            _replace_everywhere(original, replacement)


def _replace_everywhere(original: object, replacement: object) -> None:
    for module in [m for n, m in sys.modules.items() if n.split(".")[0] in OURS]:
        for name, value in list(vars(module).items()):
            if value is original:
                setattr(module, name, replacement)


@dataclass(frozen=True, slots=True)
class Sql:
    """Replaces `old` by `new` in the text of a statement; states are named as in the file."""

    statement: str
    old: str
    new: str = ""
    package: str = "scheduler"

    def off(self) -> None:
        """Replace `sql.load`, so that it returns the changed text."""
        from scheduler import sql

        text = _plain(sql.load(self.statement, self.package))
        old = _plain(sql.with_numbers(self.old))
        if old not in text:
            raise SwitchDoesNotFit(f"{self.package}/{self.statement}.sql: {self.old}")
        changed = text.replace(old, sql.with_numbers(self.new))
        before = sql.load

        @cache
        def load(name: str, package: str = "scheduler") -> str:
            if (name, package) == (self.statement, self.package):
                return changed
            return before(name, package)

        sql.load = load  # type: ignore[assignment]  # only here, only in tests


@dataclass(frozen=True, slots=True)
class Both:
    """Switches off a rule that is implemented in two places."""

    one: Code | Sql
    other: Code | Sql

    def off(self) -> None:
        self.one.off()
        self.other.off()


def _plain(text: str) -> str:
    """Return a statement as one line, without comments and indentation."""
    lines = (line.split("--")[0] for line in text.splitlines())
    return " ".join(" ".join(lines).split())


@dataclass(frozen=True, slots=True)
class Switch:
    """A rule as a sentence, how to switch it off, and tests of which at least one must fail."""

    rule: str
    off: Code | Sql | Both
    tests: tuple[str, ...] = field(default=())


def always(value: Any) -> Callable[..., Any]:
    """Return a function that returns `value` for all arguments."""
    return lambda *_args, **_kwargs: value


def unchanged(first: Any, *_args: Any, **_kwargs: Any) -> Any:
    """Return the first argument."""
    return first
