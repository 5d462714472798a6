"""Finds validators by the names that apps give, and checks their options.

``bitwise``, ``trivial``, ``numeric`` and ``substring`` are built in; ``script:PROGRAM`` runs a
program (a path, or a name in the project's science folder), ``python:package.module.Class`` makes
an object of a class.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from daemons.science import bitwise, numeric, substring, trivial
from daemons.science.interfaces import BadOptions
from daemons.science.python import load
from daemons.science.script import Script

if TYPE_CHECKING:
    from daemons.science.interfaces import Options, Validator

#: Those that judge by facts of the database alone, within a transaction.
AT_ONCE: dict[str, Validator[Any]] = {"bitwise": bitwise, "trivial": trivial}
_BUILT_IN: dict[str, Validator[Any]] = {**AT_ONCE, "numeric": numeric, "substring": substring}
#: Those that are also shown what the program wrote to standard error.
READS_STDERR = frozenset({"substring"})
#: What an app may name, in words.
CHOICES = (*_BUILT_IN, "script:PROGRAM", "python:package.module.Class")


class UnknownValidator(LookupError):
    """There is no such validator. Hint: the message says what was tried."""


def check(name: str, options: Options) -> None:
    """Raise `UnknownValidator` or `BadOptions`, as far as can be seen without running science."""
    kind, _, rest = name.partition(":")
    if kind == "python" and "." in rest.strip("."):
        return
    validator = Script(rest) if kind == "script" and rest else _BUILT_IN.get(name)
    if validator is None:
        raise UnknownValidator(_unknown(name))
    _check_options(validator, options)


def find(name: str, options: Options, *, folder: str) -> Validator[Any]:
    """The validator of a name; programs without a path lie in `folder`.

    Raises `UnknownValidator` and `BadOptions`.  Imports science: for the worker.
    """
    check(name, options)
    kind, _, rest = name.partition(":")
    validator: Validator[Any]
    if kind == "python":
        try:
            validator = load(rest, folder=folder)
        except (ImportError, AttributeError, TypeError) as error:
            hint = f"is it on PYTHONPATH, or in {folder}?"
            msg = f"Validator {name!r} cannot be loaded: {error}. Hint: {hint}"
            raise UnknownValidator(msg) from error
        _check_options(validator, options)
    elif kind == "script":
        validator = Script(rest if PurePath(rest).is_absolute() else f"{folder}/{rest}")
    else:
        validator = _BUILT_IN[name]
    return validator


def _check_options(validator: Validator[Any], options: Options) -> None:
    check_options = getattr(validator, "check_options", None)
    if check_options is not None:
        check_options(options)
    elif not isinstance(options, dict):
        raise BadOptions(f"Options are {options!r}. Hint: write an object of names and values.")


def _unknown(name: str) -> str:
    near = get_close_matches(name, _BUILT_IN, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"name one of {', '.join(CHOICES)}."
    return f"There is no validator {name!r}. Hint: {hint}"
