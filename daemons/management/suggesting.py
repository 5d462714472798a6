"""Drafts an allow-list of the plug-ins that existing apps use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from django.conf import settings

from scheduler.apps.rules import plugins
from scheduler.apps.rules.plugins import BadPlugins, Plugin
from scheduler.models import App

_HEAD = """\
# A draft of the allow-list: save it at the path of the setting PLUGINS.
# Review each entry: anyone who can write this file, or the programs in it, can run code here.
"""


def suggested(apps: Iterable[App]) -> str:
    """Return a draft allow-list in TOML, with an entry for each plug-in that is not allowed.

    The options of the first app with a plug-in become its fixed options.  Comments list the apps
    with different options.
    """
    entries: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
    lines = [_HEAD]
    for app in apps:
        for kind, name, options in _named(app):
            if _is_known(kind, name):
                continue
            first = entries.setdefault((kind, name), (app.name, options))
            if first[0] == app.name:
                lines.append(_entry(kind, name, options, app.name))
            elif first[1] != options:
                lines.append(
                    f"# App {app.name} has the {kind} {name} with other options: "
                    f"{_value(options)}\n"
                    "# Add an entry of another name for it, and change the app.\n"
                )
    return "\n".join(lines) if entries else "# Nothing is missing from the allow-list."


def _named(app: App) -> Iterator[tuple[str, str, dict[str, Any]]]:
    yield plugins.VALIDATOR, app.validator, app.validator_options
    yield plugins.ASSIMILATOR, app.assimilator, app.assimilator_options
    if app.generator:
        yield plugins.GENERATOR, app.generator, app.generator_options
    for name in app.trickle_handlers.values():
        yield plugins.TRICKLE_HANDLER, str(name), {}


def _is_known(kind: str, name: str) -> bool:
    plugin: Plugin | None = settings.PLUGINS.find(kind, name)
    is_copy = kind == plugins.GENERATOR and name.startswith("copy:")
    return plugin is not None or name in plugins.BUILT_IN[kind] or is_copy


def _entry(kind: str, name: str, options: dict[str, Any], app: str) -> str:
    entry = {"target": name, "options": options or {}}
    try:
        plugins.read({kind: {name: entry}})
    except BadPlugins as error:
        return f"# App {app}: {error}\n"
    lines = [f"[{kind}.{json.dumps(name)}]", f"target = {json.dumps(name)}"]
    if options:
        lines.append(f"options = {_value(options)}")
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:  # noqa: ANN401 - any JSON
    """Return a JSON value as a line of TOML, without null members, because TOML has no null."""
    if isinstance(value, dict):
        pairs = (
            f"{_key(name)} = {_value(item)}" for name, item in value.items() if item is not None
        )
        return "{ " + ", ".join(pairs) + " }" if value else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
