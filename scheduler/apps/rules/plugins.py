"""The allow-list of plug-ins, the only custom code that a project runs.

An app stores the name of a plug-in.  The file in the setting `PLUGINS` maps the name to a program
or Python object and its fixed options.  No API and no admin page writes that file.

A plug-in is run in three steps: `daemons.science.validators.allowed` (and its siblings for
assimilators, generators and trickle handlers) looks the name up, `daemons.science.worker.call`
sends the target to a worker, and `daemons.science.confinement` confines that worker.

This module uses no database, files or clock.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

VALIDATOR: Final = "validator"
ASSIMILATOR: Final = "assimilator"
GENERATOR: Final = "generator"
TRICKLE_HANDLER: Final = "trickle_handler"
#: The kinds of target that a plug-in can have.
_TARGETS: Final[dict[str, tuple[str, ...]]] = {
    VALIDATOR: ("script", "python"),
    ASSIMILATOR: ("script", "python", "table"),
    GENERATOR: ("python",),
    TRICKLE_HANDLER: ("python",),
}
_EXAMPLES: Final = {
    "script": "script:NAME or script:/PATH",
    "python": "python:package.module.name",
    "table": "table",
}
#: Names that an app can store without an entry in the allow-list.
BUILT_IN: Final[dict[str, tuple[str, ...]]] = {
    VALIDATOR: ("bitwise", "trivial", "numeric", "substring"),
    ASSIMILATOR: ("copy_files", "dataset", "webhook"),
    GENERATOR: (),
    TRICKLE_HANDLER: (),
}
#: Options that select programs, their arguments or tables; only the allow-list can set them.
_NEVER_OF_APPS: Final[dict[tuple[str, str], frozenset[str]]] = {
    (VALIDATOR, "script"): frozenset({"init", "compare", "compare_program"}),
    (ASSIMILATOR, "script"): frozenset({"arguments", "environment"}),
    (ASSIMILATOR, "table"): frozenset({"table", "model"}),
}
_KEYS: Final = ("target", "options", "app_options", "transactional", "network", "reads", "writes")
#: The length of the columns of an app that hold these names.
_MAX_NAME: Final = 200
_PYTHON: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)


class BadPlugins(ValueError):
    """The allow-list is not valid. Hint: correct it as the message describes."""


class BadOptions(ValueError):
    """A plug-in does not accept the options of an app. Hint: see the message for valid options."""


class UnknownPlugin(LookupError):
    """An app names a plug-in that does not exist. Hint: use a name from the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """An entry of the allow-list.

    `target` is ``script:PATH``, ``python:package.module.name`` or ``table``; `options_json` are the
    fixed options as JSON; `app_options` are the names that apps can set themselves.  A
    `transactional` function runs in the daemon.  `reads` and `writes` are absolute folder paths.
    """

    kind: str
    name: str
    target: str
    options_json: str = "{}"
    app_options: Collection[str] = frozenset()
    transactional: bool = False
    network: bool = False
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    @property
    def runner(self) -> str:
        """Return ``script``, ``python`` or ``table``."""
        return self.target.partition(":")[0]

    @property
    def path(self) -> str:
        """Return the part of `target` after the colon: a path or a dotted name."""
        return self.target.partition(":")[2]

    @property
    def function(self) -> str:
        """Return the Python object as ``package.module:name``."""
        return ":".join(self.path.rsplit(".", 1))

    def options(self, own: object) -> dict[str, Any]:
        """Return the fixed options merged with the app's `own` options; raises `BadOptions`.

        An app may repeat a fixed option with its fixed value.
        """
        if not isinstance(own, Mapping):
            msg = 'The options are not a JSON object. Hint: write {"name": value} or {}.'
            raise BadOptions(msg)
        fixed: dict[str, Any] = json.loads(self.options_json)
        for name, value in own.items():
            is_same = name in fixed and fixed[name] == value
            if name not in self.app_options and not is_same:
                allowed = ", ".join(sorted(self.app_options)) or "none"
                raise BadOptions(
                    f"Apps cannot set the option {name!r} of the {self.kind} {self.name!r}. "
                    f"Hint: apps can set: {allowed}; an operator can add names to `app_options` in "
                    "the PLUGINS file."
                )
        return {**fixed, **own}


@dataclass(frozen=True, slots=True)
class Plugins:
    """All entries, by kind and name."""

    entries: Mapping[tuple[str, str], Plugin] = field(default_factory=dict)

    def find(self, kind: str, name: str) -> Plugin | None:
        return self.entries.get((kind, name))

    def names(self, kind: str) -> tuple[str, ...]:
        """Return the names of a kind that apps can use, built-in names first."""
        return (*BUILT_IN[kind], *(name for its, name in self.entries if its == kind))

    def get(self, kind: str, name: str) -> Plugin:
        """Return the entry of this name; raises `UnknownPlugin`."""
        if plugin := self.find(kind, name):
            return plugin
        words = kind.replace("_", " ")
        near = get_close_matches(name, self.names(kind), n=1)
        if near:
            hint = f"did you mean {near[0]!r}?"
        else:
            choices = ", ".join(self.names(kind)) or "none yet"
            hint = (
                f"use one of: {choices}. Your own code runs only if an operator has added its "
                "name to the PLUGINS file (docs/plug-ins.md)."
            )
        msg = f"There is no {words} {name!r}. Hint: {hint}"
        raise UnknownPlugin(msg)


def read(document: object) -> Plugins:
    """Parse the allow-list; raises `BadPlugins`.

    The document has a table for each kind of plug-in, with entries by name.

    >>> read({"validator": {"orbits": {"target": "python:orbits.Orbits"}}}).names("validator")[-1]
    'orbits'
    """
    entries: dict[tuple[str, str], Plugin] = {}
    for kind, table in _mapping(document, "The file").items():
        if kind not in _TARGETS:
            raise BadPlugins(f"There is no kind {kind!r}. Hint: {_one_of(kind, _TARGETS)}")
        for name, entry in _mapping(table, kind).items():
            entries[kind, name] = _plugin(kind, name, entry)
    return Plugins(entries)


def _plugin(kind: str, name: str, value: object) -> Plugin:
    where = f"{kind} {name!r}"
    if not name or len(name) > _MAX_NAME or not name.isprintable():
        msg = f"{where} is not a valid name. Hint: use 1 to {_MAX_NAME} printable characters."
        raise BadPlugins(msg)
    if name in BUILT_IN[kind]:
        raise BadPlugins(f"{where} is built in. Hint: choose another name.")
    entry = _mapping(value, where)
    for key in entry:
        if key not in _KEYS:
            raise BadPlugins(f"{where} has no key {key!r}. Hint: {_one_of(key, _KEYS)}")
    target = _target(kind, where, entry.get("target"))
    options = _mapping(entry.get("options", {}), f"`options` of {where}")
    plugin = Plugin(
        kind=kind,
        name=name,
        target=target,
        options_json=_json(options, where),
        app_options=frozenset(_texts(entry, "app_options", where)),
        transactional=_flag(entry, "transactional", where),
        network=_flag(entry, "network", where),
        reads=_folders(entry, "reads", where),
        writes=_folders(entry, "writes", where),
    )
    reserved = _NEVER_OF_APPS.get((kind, plugin.runner), frozenset())
    if wrong := sorted(reserved.intersection(plugin.app_options)):
        raise BadPlugins(
            f"{where} allows apps to set {wrong[0]!r}, which selects the code that runs. "
            "Hint: set it in `options`."
        )
    if plugin.transactional and (kind, plugin.runner) != (ASSIMILATOR, "python"):
        raise BadPlugins(f"{where} cannot be transactional. Hint: use a python: assimilator.")
    return plugin


def _target(kind: str, where: str, target: object) -> str:
    examples = " or ".join(_EXAMPLES[runner] for runner in _TARGETS[kind])
    if not isinstance(target, str) or target.partition(":")[0] not in _TARGETS[kind]:
        raise BadPlugins(f"{where} has the target {target!r}. Hint: write {examples}.")
    runner, _, rest = target.partition(":")
    is_fine = {
        "script": bool(rest) and ".." not in rest.split("/") and rest.isprintable(),
        "python": bool(_PYTHON.fullmatch(rest)),
        "table": target == "table",
    }[runner]
    if not is_fine:
        raise BadPlugins(f"{where} has the target {target!r}. Hint: write {_EXAMPLES[runner]}.")
    return target


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadPlugins(f"{what} is not a table. Hint: compare it with docs/plug-ins.md.")
    return value


def _json(options: Mapping[str, Any], where: str) -> str:
    try:
        return json.dumps(options, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        msg = f"`options` of {where} are not JSON: {error}. Hint: use texts, numbers and lists."
        raise BadPlugins(msg) from error


def _texts(entry: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = entry.get(key, [])
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise BadPlugins(
            f"`{key}` of {where} is not a list of texts. Hint: write a list such as []."
        )
    return tuple(value)


def _folders(entry: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    folders = _texts(entry, key, where)
    for folder in folders:
        if not folder.startswith("/") or ".." in folder.split("/") or not folder.strip("/"):
            msg = f"`{key}` of {where} has {folder!r}. Hint: write absolute paths without `..`."
            raise BadPlugins(msg)
    return folders


def _flag(entry: Mapping[str, Any], key: str, where: str) -> bool:
    value = entry.get(key, False)
    if not isinstance(value, bool):
        raise BadPlugins(f"`{key}` of {where} is {value!r}. Hint: write true or false.")
    return value


def _one_of(name: str, choices: Iterable[str]) -> str:
    near = get_close_matches(str(name), list(choices), n=1)
    return f"did you mean {near[0]!r}?" if near else f"write one of {', '.join(choices)}."
