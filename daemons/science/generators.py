"""Defines the interface of work generators, and calls generators in the worker."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from inspect import isclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from daemons.science.interfaces import BadOptions, Defer
from daemons.science.messages import BadMessage, a_list, an_object, optional
from daemons.science.moments import moment_message, read_moment
from daemons.science.worker_main import resolve
from scheduler.apps.rules.plugins import GENERATOR

if TYPE_CHECKING:
    from scheduler.apps.rules.plugins import Plugin, Plugins

#: The maximum size of a generator's answer, including the contents of input files; bytes.
MAX_ANSWER: Final = 16 << 20
#: The built-in generator: ``copy:WORKUNIT``.
COPY: Final = "copy"


class BadGenerator(ValueError):
    """A generator violated its interface. Hint: see the error text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedWork:
    """The output of a generator.

    `state` is the generator's new state, and `ask_again` the time of the next call if the generator
    raised `Defer`.  `from_outside` is True for the workunits of science code, which must not
    contain paths on the server's disk.
    """

    workunits: tuple[Any, ...]
    state: dict[str, Any]
    ask_again: timedelta | datetime | None = None
    from_outside: bool = False


class Generator(Protocol):
    """Generates a finite or endless sequence of workunits."""

    def __call__(
        self, count: int, options: Mapping[str, Any], state: dict[str, Any], /
    ) -> Iterable[Mapping[str, Any]]:
        """Return descriptions of the next `count` workunits.

        `state` is the state after the last call, empty at first.  Change it in place, before
        yielding the workunit that causes the change: it is saved in the same transaction as the
        workunits.  A call that yields no workunit ends the generator; raise `Defer` to be called
        again later.
        """


def allowed(name: str, options: object, plugins: Plugins) -> tuple[Plugin | None, dict[str, Any]]:
    """Return the plug-in and the options of an app's generator.

    The plug-in is None for ``copy:WORKUNIT``.

    Raises `UnknownPlugin` and `BadOptions`.
    """
    kind, _, rest = name.partition(":")
    if kind == COPY and rest:
        if not isinstance(options, dict):
            raise BadOptions('The options are not a JSON object. Hint: write {} or {"most": 100}.')
        return None, options
    plugin = plugins.get(GENERATOR, name)
    return plugin, plugin.options(options)


def check(name: str, options: object) -> None:
    """Check the name and the options of an app's generator, without running science code.

    Raises `UnknownPlugin` and `BadOptions`.
    """
    from django.conf import settings  # noqa: PLC0415 - the worker imports this module without Django

    allowed(name, options, settings.PLUGINS)


def read_answer(value: object, most: int) -> GeneratedWork:
    """Read the answer of `run`; raises `BadMessage`.  Submission checks the descriptions."""
    answer = an_object(value, "The answer", ("workunits", "state", "ask_again"))
    if not isinstance(answer["state"], dict):
        raise BadMessage("The state is not an object.")
    return GeneratedWork(
        workunits=tuple(a_list(answer["workunits"], "workunits", most)),
        state=answer["state"],
        ask_again=optional(read_moment)(answer["ask_again"]),
        from_outside=True,
    )


# In the worker


def run(
    target: str, folder: str, count: int, options: dict[str, Any], state: dict[str, Any]
) -> dict[str, Any]:
    """Call a generator in the worker; return up to `count` workunits as JSON."""
    target_object: Any = resolve(target, folder)
    generator: Any = target_object() if isclass(target_object) else None
    generate = target_object if generator is None else generator.generate
    workunits: list[Any] = []
    ask_again = None
    try:
        for workunit in islice(generate(count, options, state), count):
            workunits.append(_plain(workunit))  # noqa: PERF401 - workunits before a Defer are kept
    except Defer as defer:
        ask_again = defer.until
    try:
        new_state = json.loads(json.dumps(state))
    except (TypeError, ValueError) as error:
        msg = f"The generator's state is not JSON: {error}. Hint: keep numbers, texts and lists."
        raise BadGenerator(msg) from error
    again = None if ask_again is None else moment_message(ask_again)
    return {"workunits": workunits, "state": new_state, "ask_again": again}


def _plain(workunit: Any) -> Any:  # noqa: ANN401 - the generator's output
    """Convert a workunit's description to JSON.

    Durations are converted to seconds, times to text, and contents of files to Base64.
    """
    if not isinstance(workunit, Mapping):
        return workunit
    plain = {name: _plain_value(value) for name, value in workunit.items()}
    if "delay_bound" in plain:
        plain["delay_bound_seconds"] = plain.pop("delay_bound")
    files = plain.get("input_files")
    if isinstance(files, list | tuple):
        plain["input_files"] = [_plain_file(file) for file in files]
    return plain


def _plain_value(value: Any) -> Any:  # noqa: ANN401 - as above
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        return value.isoformat()
    return value


def _plain_file(file: Any) -> Any:  # noqa: ANN401 - as above
    """Convert an input file to JSON; a `path` is read with the access rights of the generator."""
    if not isinstance(file, Mapping):
        return file
    plain = dict(file)
    content = plain.get("content")
    if plain.get("path"):
        content = Path(plain.pop("path")).read_bytes()
    if isinstance(content, bytes | bytearray):
        plain.pop("content", None)
        plain["content_base64"] = base64.b64encode(content).decode()
    return plain
