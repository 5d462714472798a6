"""The fields of an app that only administrators may set.

This module uses no database, files or clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The fields that set the work share and the credit of an app.  Validators and other science fields
#: are not reserved: they can name only built-in code or entries of the allow-list
#: (`scheduler.apps.rules.plugins`).
PROJECTS_OWN = frozenset({"weight", "credit_rule", "credit_per_workunit"})


def reserved(facts: Mapping[str, Any]) -> list[str]:
    """Return the names of the facts that only administrators may set, in the given order.

    >>> reserved({"grace": 0, "weight": 2, "validator": "numeric"})
    ['weight']
    """
    return [name for name in facts if name in PROJECTS_OWN]
