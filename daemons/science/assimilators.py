"""Finds assimilators by the names that apps give, and checks their options."""

from __future__ import annotations

import json
from difflib import get_close_matches
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
)
from daemons.science.interfaces import Assimilation, Output
from scheduler import storage
from scheduler.lifecycle import ErrorMask

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from daemons.science.interfaces import Assimilator


class UnknownAssimilator(LookupError):
    """An app names an assimilator that does not exist. Hint: the message says what was tried."""


def _copy_files(_argument: str, given: object, _time_limit: timedelta) -> Assimilator:
    checking.checked("copy_files", given, {})
    return copy_files.assimilate


#: What makes an assimilator of each kind, from what follows ``:``, the options and the time limit.
KINDS: dict[str, Callable[[str, object, timedelta], Assimilator]] = {
    "copy_files": _copy_files,
    "dataset": dataset.make,
    "table": table.make,
    "webhook": webhook.make,
    "script": run_script.make,
    "python": callables.make,
}
#: Kinds that take what follows ``:``.
_WITH_ARGUMENT = {"script": "script:PROGRAM", "python": "python:package.module.function"}
CHOICES = tuple(_WITH_ARGUMENT.get(kind, kind) for kind in KINDS)


def find(name: str, options: object, time_limit: timedelta) -> Assimilator:
    """The assimilator of an app; raises `UnknownAssimilator` and `BadOptions`.

    Imports no science.
    """
    return _find(name, json.dumps(options, sort_keys=True), time_limit)


@lru_cache(maxsize=1000)
def _find(name: str, options: str, time_limit: timedelta) -> Assimilator:
    kind, colon, argument = name.partition(":")
    make = KINDS.get(kind)
    if make is None or bool(colon) != (kind in _WITH_ARGUMENT):
        near = get_close_matches(name, CHOICES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"name one of {', '.join(CHOICES)}."
        raise UnknownAssimilator(f"There is no assimilator {name!r}. Hint: {hint}")
    return make(argument, json.loads(options), time_limit)


def told(row: dict[str, Any]) -> Assimilation:
    """What the science is told of a claimed row."""
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
                storage.upload_path(name),
            )
            for position, name in names
        ),
    )
