"""The table of all rules that can be switched off."""

from __future__ import annotations

from tests.mutate.rules import (
    api,
    choosing,
    credit,
    dependencies,
    disbatch,
    files,
    history,
    lineage,
    messages,
    plan_classes,
    pool,
    predecessors,
    queues,
    replication,
    results,
    science,
    submitters,
    task_lists,
    work,
    workunits,
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
    *pool.RULES,
    *queues.RULES,
    *dependencies.RULES,
    *submitters.RULES,
    *files.RULES,
    *api.RULES,
    *disbatch.RULES,
    *history.RULES,
    *task_lists.RULES,
    *lineage.RULES,
    *workunits.RULES,
    *predecessors.RULES,
    *results.RULES,
)

_names = [one.rule for one in SWITCHES]
if _twice := sorted({name for name in _names if _names.count(name) > 1}):
    msg = f"Rules stand twice in the table: {_twice}"
    raise ValueError(msg)
