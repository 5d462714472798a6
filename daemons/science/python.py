"""Validators that are Python classes: ``python:package.module.Class``."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from daemons.science.interfaces import Validator


def load(path: str, *, folder: str) -> Validator[Any]:
    """An object of the class at ``package.module.Class``; modules may also lie in `folder`.

    Raises ImportError, AttributeError, and TypeError for a class of another shape.
    """
    if folder not in sys.path:
        sys.path.append(folder)
    module, _, name = path.rpartition(".")
    found: Validator[Any] = getattr(import_module(module), name)()
    for function in ("prepare", "agree"):
        if not callable(getattr(found, function, None)):
            raise TypeError(f"{path} has no function {function!r}")
    return found
