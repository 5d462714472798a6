"""Assimilates by a Python function: ``python:package.module.function``.

It is called in the worker process, where it may hang or crash.  With a true attribute
`transactional` it is called by the daemon itself, inside the transaction that settles the workunit.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings

from daemons.science import worker
from daemons.science.interfaces import BadOptions, Defer
from daemons.science.worker_main import resolve

if TYPE_CHECKING:
    from datetime import timedelta

    from daemons.science.interfaces import Assimilation


@dataclass(frozen=True, slots=True)
class Callable:
    """A function as an assimilator; `target` is its ``package.module:function``."""

    target: str
    folder: str
    time_limit: timedelta

    @property
    def transactional(self) -> bool:
        """What the function says of itself; the worker imports it first, as that may crash, too."""
        return _is_transactional(self.target, self.folder, self.time_limit)

    def __call__(self, assimilation: Assimilation) -> list[Path] | Defer | None:
        """Call it here if it belongs into our transaction, else in the worker."""
        if self.transactional:
            return run(self.target, self.folder, assimilation)
        answer: list[Path] | Defer | None = worker.call(
            "daemons.science.callables:run",
            self.target,
            self.folder,
            assimilation,
            time_limit=self.time_limit,
        )
        return answer


def make(argument: str, given: object, time_limit: timedelta) -> Callable:
    """A function by its dotted path; its options are its own affair.  Raises `BadOptions`."""
    module, _, function = argument.rpartition(".")
    if not module or not function:
        raise BadOptions(
            f"python names no function: {argument!r}. Hint: write python:package.module.function."
        )
    if not isinstance(given, dict):
        raise BadOptions('The options are no JSON object. Hint: write {} or {"name": value}.')
    return Callable(f"{module}:{function}", f"{settings.VAR_DIR}/science", time_limit)


def run(target: str, folder: str, assimilation: Assimilation) -> list[Path] | Defer | None:
    """Call the function and make its answer plain."""
    try:
        answer = _load(target, folder)(assimilation)
    except Defer as later:
        return later
    if answer is None or isinstance(answer, Defer):
        return answer
    return [Path(path) for path in answer]


def says_transactional(target: str, folder: str) -> bool:
    """What the function says of itself; imports it."""
    return bool(getattr(_load(target, folder), "transactional", False))


@cache
def _is_transactional(target: str, folder: str, time_limit: timedelta) -> bool:
    answer: bool = worker.call(
        "daemons.science.callables:says_transactional", target, folder, time_limit=time_limit
    )
    return answer


def _load(target: str, folder: str) -> Any:  # noqa: ANN401 - whatever it names
    if folder not in sys.path:
        sys.path.append(folder)
    return resolve(target)
