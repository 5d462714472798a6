"""Searches an output or standard error for a text, as the validator `substring`.

Any two valid results agree.  Source: BOINC's sample validator by substring.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemons.science.checking import checked, flag, text
from daemons.science.interfaces import STDERR, BadOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemons.science.interfaces import Options, ReportedOutput


def _position(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("the number of an output, from 0")
    return value


_OPTIONS: dict[str, Callable[[Any], Any]] = {"text": text, "reject": flag, "output": _position}


def check_options(options: Options) -> None:
    """Raise `BadOptions` if an option is not valid or missing."""
    checked("substring", options, _OPTIONS, required=("text",))


def prepare(outputs: Sequence[ReportedOutput], options: Options) -> tuple[()] | None:
    """Search for the text; return empty evidence, or None if a required output is missing.

    Raises `BadOutput` if the text is not found, or with `reject` if it is found.
    """
    if any(output.is_missed for output in outputs):
        return None
    place = options.get("output", STDERR)
    source = next((output for output in outputs if output.position == place), None)
    name = "standard error" if place == STDERR else f"output {place}"
    if source is None:
        raise LookupError(f"There is no {name} to search. Hint: see the option 'output'.")
    has_it = options["text"] in (source.text if place == STDERR else _content(source))
    if has_it == options.get("reject", False):
        verb = "contains" if has_it else "does not contain"
        raise BadOutput(f"The result's {name} {verb} the text {options['text']!r}.")
    return ()


def agree(_one: tuple[()], _other: tuple[()]) -> bool:
    """Return True, because all valid results agree."""
    return True


def _content(output: ReportedOutput) -> str:
    if output.sha256 is None:
        return ""
    return Path(output.path).read_bytes().decode(errors="replace")
