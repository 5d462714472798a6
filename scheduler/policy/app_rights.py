"""Which facts of an app a scientist may set, and which the project alone [pure]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: What anybody who manages an app may name: it runs no code of his on the server.
BUILT_IN_VALIDATORS = ("bitwise", "trivial", "numeric", "substring")
BUILT_IN_ASSIMILATORS = ("copy_files",)
#: What apps are worth beside each other.
PROJECTS_OWN = frozenset({"weight", "credit_rule", "credit_per_workunit", "assimilator_options"})


def reserved(facts: Mapping[str, Any]) -> list[str]:
    """Name the facts that only who administers may set so, in the order in which they are given.

    >>> reserved({"grace": 0, "weight": 2, "validator": "script:x"})
    ['weight', 'validator']
    """
    return [name for name, value in facts.items() if _is_reserved(name, value)]


def _is_reserved(name: str, value: object) -> bool:
    if name == "validator":
        return value not in BUILT_IN_VALIDATORS
    if name == "assimilator":
        return value not in BUILT_IN_ASSIMILATORS
    return name in PROJECTS_OWN
