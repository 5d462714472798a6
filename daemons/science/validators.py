"""Finds validators by name and checks their options.

``bitwise``, ``trivial``, ``numeric`` and ``substring`` are built in.  Every other name must be in
the allow-list (`settings.PLUGINS`), which defines its target.  ``script:PROGRAM`` runs a program,
which is a path or a name in the project's science folder.  ``python:package.module.Class`` creates
an object of a class.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from daemons.science import bitwise, numeric, substring, trivial
from daemons.science.interfaces import BadOptions
from daemons.science.script import Script
from daemons.science.worker_main import resolve
from scheduler.apps.rules.plugins import VALIDATOR, UnknownPlugin

if TYPE_CHECKING:
    from daemons.science.interfaces import Options, Validator
    from scheduler.apps.rules.plugins import Plugin, Plugins

#: Validators that read no files, only columns of the database; they run within a transaction.
FAST_VALIDATORS: dict[str, Validator[Any]] = {"bitwise": bitwise, "trivial": trivial}
_BUILT_IN: dict[str, Validator[Any]] = {
    **FAST_VALIDATORS,
    "numeric": numeric,
    "substring": substring,
}
#: Validators that also read the program's standard error.
READS_STDERR = frozenset({"substring"})
#: The built-in validators, and the forms of targets in the allow-list.
CHOICES = (*_BUILT_IN, "script:PROGRAM", "python:package.module.Class")


def check(name: str, options: Options) -> None:
    """Check the name and the options of an app's validator, without running science code.

    Raises `UnknownPlugin` and `BadOptions`.
    """
    from django.conf import settings  # noqa: PLC0415 - the worker imports this module without Django

    plugins: Plugins = settings.PLUGINS
    allowed(name, options, plugins)


def allowed(name: str, options: Options, plugins: Plugins) -> tuple[str, Options, Plugin | None]:
    """Return the target of an app's validator, its options, and its plug-in.

    The plug-in is None if the validator is built in.

    Raises `UnknownPlugin` and `BadOptions`.  Imports no science code.
    """
    if name in _BUILT_IN:
        _check_options(_BUILT_IN[name], options)
        return name, options, None
    plugin = plugins.get(VALIDATOR, name)
    merged = plugin.options(options)
    if plugin.runner == "script":
        _check_options(Script(plugin.path), merged)
    return plugin.target, merged, plugin


def find(target: str, options: Options, *, folder: str) -> Validator[Any]:
    """Return the validator of a target.  A relative path of a program is relative to `folder`.

    Raises `UnknownPlugin` and `BadOptions`.  Imports science code, so call it only in the worker.
    """
    kind, _, rest = target.partition(":")
    validator: Validator[Any]
    if kind == "python":
        try:
            validator = resolve(":".join(rest.rsplit(".", 1)), folder)()
            for function in ("prepare", "agree"):
                if not callable(getattr(validator, function, None)):
                    raise TypeError(f"{rest} has no function {function!r}")  # noqa: TRY301 - as if not loaded
        except (ImportError, AttributeError, TypeError) as error:
            hint = f"is it on PYTHONPATH, or in {folder}?"
            msg = f"Validator {target!r} cannot be loaded: {error}. Hint: {hint}"
            raise UnknownPlugin(msg) from error
        _check_options(validator, options)
        return validator
    if kind == "script" and rest:
        validator = Script(rest if PurePath(rest).is_absolute() else f"{folder}/{rest}")
    elif target in _BUILT_IN:
        validator = _BUILT_IN[target]
    else:
        raise UnknownPlugin(f"There is no validator {target!r}. Hint: see {', '.join(CHOICES)}.")
    _check_options(validator, options)
    return validator


def _check_options(validator: Validator[Any], options: Options) -> None:
    check_options = getattr(validator, "check_options", None)
    if check_options is not None:
        check_options(options)
    elif not isinstance(options, dict):
        raise BadOptions(f"Options are {options!r}. Hint: write an object of names and values.")
