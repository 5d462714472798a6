"""Finds assimilators by name and checks their options.

``copy_files``, ``dataset`` and ``webhook`` are built in.  Every other name must be in the
allow-list (`settings.PLUGINS`).  The target of such a name is a program, a Python function, or a
table of the server's database.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django.conf import settings

from daemons.science import (
    callables,
    checking,
    copy_files,
    dataset,
    run_script,
    table,
    webhook,
    worker,
)
from daemons.science.interfaces import Assimilation, Output
from scheduler import storage
from scheduler.apps.rules.plugins import ASSIMILATOR
from scheduler.lifecycle import ErrorMask

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from daemons.science.interfaces import Assimilator
    from scheduler.apps.rules.plugins import Plugin


def _copy_files(options: object, _time_limit: timedelta) -> Assimilator:
    checking.checked("copy_files", options, {})
    return copy_files.assimilate


#: The functions that return built-in assimilators; their arguments are options and time limit.
KINDS: dict[str, Callable[[object, timedelta], Assimilator]] = {
    "copy_files": _copy_files,
    "dataset": dataset.make,
    "webhook": webhook.make,
}


def find(name: str, options: object, time_limit: timedelta) -> Assimilator:
    """Return the assimilator with this name and these options, without importing science code.

    Raises `UnknownPlugin` and `BadOptions`.
    """
    plugin = None if name in KINDS else settings.PLUGINS.get(ASSIMILATOR, name)
    options_json = json.dumps(options, sort_keys=True)
    return _find(name, plugin, options_json, worker.science_folder(), time_limit)


@lru_cache(maxsize=1000)
def _find(
    name: str, plugin: Plugin | None, options: str, folder: str, time_limit: timedelta
) -> Assimilator:
    if plugin is None:
        return KINDS[name](json.loads(options), time_limit)
    merged = plugin.options(json.loads(options))
    if plugin.runner == "table":
        return table.make(merged)
    if plugin.runner == "script":
        return run_script.make(plugin, merged, folder, time_limit)
    return callables.Callable(merged, plugin, time_limit)


def assimilation_of(row: dict[str, Any]) -> Assimilation:
    """Return the `Assimilation` for a row of a claimed workunit."""
    has_failed = row["canonical_result_id"] is None
    names = zip(row["positions"] or (), row["names"] or (), strict=True)
    return Assimilation(
        key=f"{settings.PROJECT.name}/{row['id']}",
        workunit_id=row["id"],
        workunit_name=row["name"],
        app=row["app"],
        batch_id=row["batch_id"],
        meta=row["meta"],
        options=row["assimilator_options"],
        errors=tuple(bit.name or "" for bit in ErrorMask(row["error_mask"])) if has_failed else (),
        cancel_reason=row["cancel_reason"],
        canonical_result_id=row["canonical_result_id"],
        canonical_result_name=row["canonical_result_name"],
        outputs=tuple(
            Output(
                position,
                row["outputs"][position].get("open_name", ""),
                name,
                storage.upload_file(name),
            )
            for position, name in names
        ),
    )
