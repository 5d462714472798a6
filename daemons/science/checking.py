"""Checks the names and values of the options of an app's plug-ins."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from daemons.science.interfaces import BadOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def checked(
    kind: str,
    options: object,
    readers: Mapping[str, Callable[[Any], Any]],
    *,
    required: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return the options that are set, each parsed by its reader in `readers`.

    Raises `BadOptions` if `options` is not a dict, for an unknown option, for a missing option of
    `required`, and for an option whose reader raises ValueError.
    """
    if not isinstance(options, dict):
        msg = f'The options of {kind} are not a JSON object. Hint: write {{"name": value}} or {{}}.'
        raise BadOptions(msg)
    for name in options:
        if name not in readers:
            hint = _suggestion(name, readers)
            raise BadOptions(f"{kind} has no option {name!r}. Hint: {hint}")
    for name in required:
        if name not in options:
            raise BadOptions(
                f"{kind} needs the option {name!r}. Hint: add it to the app's options."
            )
    read = {}
    for name, value in options.items():
        try:
            read[name] = readers[name](value)
        except ValueError as error:
            msg = f"The option {name!r} of {kind} is {value!r}. Hint: it must be {error}."
            raise BadOptions(msg) from error
    return read


def text(value: object) -> str:
    """Return the value if it is non-empty text; raises ValueError for other values."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("text")
    return value


def texts(value: object) -> tuple[str, ...]:
    """Return a list of strings as a tuple; raises ValueError for other values."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("a list of texts")
    return tuple(value)


def texts_by_name(value: object) -> dict[str, str]:
    """Return the value if it is a dict of strings; raises ValueError for other values."""
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ValueError("an object of texts")
    return value


def flag(value: object) -> bool:
    """Return the value if it is a boolean; raises ValueError for other values."""
    if not isinstance(value, bool):
        raise ValueError("true or false")  # noqa: TRY004 - the caller expects ValueError
    return value


def number(least: float, most: float) -> Callable[[Any], float]:
    """Return a reader of numbers from `least` to `most`."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"a number from {least:g} to {most:g}")  # noqa: TRY004 - as above
        if not least <= value <= most:
            raise ValueError(f"a number from {least:g} to {most:g}")
        return value

    return read


def one_of(*words: str) -> Callable[[Any], str]:
    """Return a reader of values that are one of these words."""

    def read(value: object) -> str:
        if value not in words:
            raise ValueError("one of " + ", ".join(words))
        return str(value)

    return read


def _suggestion(name: str, readers: Mapping[str, object]) -> str:
    if near := get_close_matches(str(name), readers, n=1):
        return f"did you mean {near[0]!r}?"
    return f"the options are {', '.join(sorted(readers))}." if readers else "it has no options."
