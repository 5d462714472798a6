"""Checks the options that an app gives to its science: nothing is unknown."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from daemons.science.interfaces import BadOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def checked(
    kind: str,
    given: object,
    known: Mapping[str, Callable[[Any], Any]],
    *,
    required: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Options as their readers read them; only those that are given.

    Raises `BadOptions` for an unknown one, naming the nearest, for a missing one, and for one whose
    reader refuses it.
    """
    if not isinstance(given, dict):
        msg = f'The options of {kind} are no JSON object. Hint: write {{"name": value}} or {{}}.'
        raise BadOptions(msg)
    for name in given:
        if name not in known:
            raise BadOptions(f"{kind} knows no option {name!r}. Hint: {_instead(name, known)}")
    for name in required:
        if name not in given:
            raise BadOptions(
                f"{kind} needs the option {name!r}. Hint: add it to the app's options."
            )
    read = {}
    for name, value in given.items():
        try:
            read[name] = known[name](value)
        except ValueError as error:
            msg = f"The option {name!r} of {kind} is {value!r}. Hint: it is {error}."
            raise BadOptions(msg) from error
    return read


def text(value: object) -> str:
    """Text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("text")
    return value


def texts(value: object) -> tuple[str, ...]:
    """A list of text."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError("a list of texts")
    return tuple(value)


def texts_by_name(value: object) -> dict[str, str]:
    """An object whose values are text."""
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise ValueError("an object of texts")
    return value


def flag(value: object) -> bool:
    """Yes or no."""
    if not isinstance(value, bool):
        raise ValueError("true or false")  # noqa: TRY004 - the caller asks for ValueError
    return value


def number(least: float, most: float) -> Callable[[Any], float]:
    """A number between two others."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"a number from {least:g} to {most:g}")  # noqa: TRY004 - as above
        if not least <= value <= most:
            raise ValueError(f"a number from {least:g} to {most:g}")
        return value

    return read


def one_of(*words: str) -> Callable[[Any], str]:
    """One of these words."""

    def read(value: object) -> str:
        if value not in words:
            raise ValueError("one of " + ", ".join(words))
        return str(value)

    return read


def _instead(name: str, known: Mapping[str, object]) -> str:
    if near := get_close_matches(str(name), known, n=1):
        return f"did you mean {near[0]!r}?"
    return f"it knows {', '.join(sorted(known))}." if known else "it has no options."
