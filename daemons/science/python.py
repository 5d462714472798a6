"""Validators that are Python classes: ``python:package.module.Class``."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from daemons.science.interfaces import Validator


def load(path: str, *, folder: str) -> Validator[Any]:
    """Return an object of the class ``package.module.Class``; modules may also lie in `folder`.

    Raises ImportError, AttributeError, and TypeError for a class without the needed functions.
    """
    if folder not in sys.path:
        sys.path.append(folder)
    module, _, name = path.rpartition(".")
    validator: Validator[Any] = getattr(import_module(module), name)()
    for function in ("prepare", "agree"):
        if not callable(getattr(validator, function, None)):
            raise TypeError(f"{path} has no function {function!r}")
    return validator
