"""Reads which keywords the project's work has."""

from __future__ import annotations

from typing import Final

from scheduler import sql
from scheduler.dispatch.rules.scoring import keyword_ids

#: The number of workunits of which the keywords are read, a few milliseconds for a page.
NEWEST: Final = 5000
_MAX_TEXTS: Final = 500


def read() -> frozenset[int]:
    """Return the numbers of the keywords of the newest workunits; one statement."""
    bounds = {"count": NEWEST, "max_texts": _MAX_TEXTS}
    rows = sql.fetch("work/volunteers/read_used_keywords", bounds)
    return frozenset().union(*(keyword_ids(row["keywords"]) for row in rows))
