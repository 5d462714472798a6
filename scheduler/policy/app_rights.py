"""Which facts of an app a scientist may set, and which the project alone [pure]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: What apps are worth beside each other.  Science needs no rights of its own: an app can name
#: nothing but what is built in or in the allow-list (`scheduler.policy.plugins`).
PROJECTS_OWN = frozenset({"weight", "credit_rule", "credit_per_workunit"})


def reserved(facts: Mapping[str, Any]) -> list[str]:
    """Name the facts that only who administers may set, in the order in which they are given.

    >>> reserved({"grace": 0, "weight": 2, "validator": "numeric"})
    ['weight']
    """
    return [name for name in facts if name in PROJECTS_OWN]
