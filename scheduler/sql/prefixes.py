"""Finds texts by their beginnings with indexes, whatever the plan.

The statements of web processes are planned for any parameters (decision 7).  Therefore a pattern of
LIKE, such as `startswith` of Django, uses no index, but a range does.
"""

from __future__ import annotations

from typing import Final

from django.db.models import Q

#: The last character of Unicode, which no text contains.
_LAST: Final = "\U0010ffff"


def begins_with(key: str, beginning: str) -> Q:
    """Return the condition that the text `key` begins with `beginning`.

    `key` is the name of a column or an alias in the collation C, in which ranges are correct.
    """
    return Q(**{f"{key}__gte": beginning, f"{key}__lt": beginning + _LAST})
