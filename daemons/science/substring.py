"""Results are valid by a text in their standard error, or in an output.

Two valid ones agree.  Source: BOINC's sample validator by substring.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemons.science.checking import checked, flag, text
from daemons.science.interfaces import STDERR, BadOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemons.science.interfaces import Brought, Options


def _position(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("the number of an output, from 0")
    return value


_OPTIONS: dict[str, Callable[[Any], Any]] = {"text": text, "reject": flag, "output": _position}


def check_options(options: Options) -> None:
    """Raise `BadOptions`."""
    checked("substring", options, _OPTIONS, required=("text",))


def prepare(outputs: Sequence[Brought], options: Options) -> tuple[()] | None:
    """Look for the text; raises `BadOutput` if it is not there, or is there and must not be."""
    if any(output.is_missed for output in outputs):
        return None
    place = options.get("output", STDERR)
    found = next((output for output in outputs if output.position == place), None)
    name = "standard error" if place == STDERR else f"output {place}"
    if found is None:
        raise LookupError(f"There is no {name} to look into. Hint: see the option 'output'.")
    has_it = options["text"] in (found.text if place == STDERR else _content(found))
    if has_it == options.get("reject", False):
        word = "has" if has_it else "has not"
        raise BadOutput(f"Its {name} {word} the text {options['text']!r}.")
    return ()


def agree(_one: tuple[()], _other: tuple[()]) -> bool:
    """Whether two valid results agree: always."""
    return True


def _content(output: Brought) -> str:
    if output.sha256 is None:
        return ""
    return Path(output.path).read_bytes().decode(errors="replace")
