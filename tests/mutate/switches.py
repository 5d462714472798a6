"""The table of all rules that can be switched off."""

from __future__ import annotations

from tests.mutate.rules import (
    api,
    choosing,
    credit,
    files,
    lineage,
    messages,
    plan_classes,
    replication,
    science,
    submitters,
    work,
)
from tests.mutate.switching import Switch

SWITCHES: tuple[Switch, ...] = (
    *choosing.RULES,
    *plan_classes.RULES,
    *replication.RULES,
    *science.RULES,
    *credit.RULES,
    *messages.RULES,
    *work.RULES,
    *submitters.RULES,
    *files.RULES,
    *api.RULES,
    *lineage.RULES,
)

_names = [one.rule for one in SWITCHES]
if _twice := sorted({name for name in _names if _names.count(name) > 1}):
    msg = f"Rules stand twice in the table: {_twice}"
    raise ValueError(msg)
