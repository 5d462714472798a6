"""The shape of an app's own generator of work, and how the worker runs one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from inspect import isclass
from itertools import islice
from typing import Any, Protocol

from daemons.science.interfaces import Defer
from daemons.science.worker_main import resolve


class BadGenerator(ValueError):
    """A generator did what none may do. Hint: the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a generator made: descriptions of workunits, its new state, when to ask again."""

    workunits: tuple[Any, ...]
    state: dict[str, Any]
    ask_again: timedelta | datetime | None = None


class Generator(Protocol):
    """Makes work without end, or until there is no more."""

    def __call__(
        self, count: int, options: Mapping[str, Any], state: dict[str, Any], /
    ) -> Iterable[Mapping[str, Any]]:
        """Describe the next `count` workunits.

        `state` is what it left behind the last time, empty at first: change it in place, before
        the workunit that it counts is yielded.  It is saved with the workunits or not at all.
        None made says that there is no more; `Defer` raised, that there is none now.
        """


def run(target: str, count: int, options: dict[str, Any], state: dict[str, Any]) -> Made:
    """Have a generator make up to `count` workunits; runs in the worker."""
    found: Any = resolve(target)
    made_by: Any = found() if isclass(found) else None
    generate = found if made_by is None else made_by.generate
    made: list[Any] = []
    ask_again = None
    try:
        for workunit in islice(generate(count, options, state), count):
            made.append(workunit)  # noqa: PERF402 - what was made before a Defer counts
    except Defer as defer:
        ask_again = defer.until
    try:
        kept = json.loads(json.dumps(state))
    except (TypeError, ValueError) as error:
        msg = f"The generator's state is not JSON: {error}. Hint: keep numbers, texts and lists."
        raise BadGenerator(msg) from error
    return Made(workunits=tuple(made), state=kept, ask_again=ask_again)
