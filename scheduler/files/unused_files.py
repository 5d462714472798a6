"""Finds files without references, and marks them for deletion by the file deleter.

The code that drops the last reference to a file marks the file for deletion.  This module covers
the other cases: expired holds, and references that were deleted together with an app version or a
host by staff.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from scheduler.files.download_files import mark_unused_for_deletion
from scheduler.sql import execute, fetch, fetch_one


def drop_past_holds(now: datetime, limit: int) -> int:
    """Drop expired holds, and mark their unused files for deletion; return the number of holds.

    Each transaction drops the expired holds on at most `limit` files.
    """
    share, total = {"now": now, "limit": limit}, 0
    while True:
        past = {"ids": sorted({row["id"] for row in fetch("files/read_past_holds", share)})}
        if not past["ids"]:
            return total
        with transaction.atomic():
            fetch("files/lock_files", past)
            dropped = execute("files/drop_past_holds", {**past, "now": now})
            mark_unused_for_deletion(past["ids"], now=now)
        total += dropped
        if dropped < limit:
            return total


def mark_forgotten_for_deletion(now: datetime, limit: int) -> int:
    """Mark all files without references for deletion; return the number of marked files.

    Each transaction checks at most `limit` files.
    """
    after, marked_count = 0, 0
    while True:
        row = (
            fetch_one("files/read_unused_files", {"after": after, "limit": limit, "now": now}) or {}
        )
        if row.get("last") is None:
            return marked_count
        after = row["last"]
        if row["ids"]:
            with transaction.atomic():
                marked_count += mark_unused_for_deletion(row["ids"], now=now)
