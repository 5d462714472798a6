"""Finds files that nobody refers to, and dooms them for the deleter.

Whoever drops the last reference dooms its file himself; this catches what no such drop ends: a
hold whose time is over, and rows that went by another way (an app version or a host deleted by
staff).
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from scheduler.files.download_files import doom_unused
from scheduler.sql import execute, fetch, fetch_one


def drop_past_holds(now: datetime, limit: int) -> int:
    """Drop holds whose time is over, and doom what nobody else keeps; returns how many holds.

    Each `limit` holds are a transaction of their own.
    """
    share, total = {"now": now, "limit": limit}, 0
    while True:
        past = {"ids": sorted({row["id"] for row in fetch("files/read_past_holds", share)})}
        if not past["ids"]:
            return total
        with transaction.atomic():
            fetch("files/lock_files", past)
            dropped = execute("files/drop_past_holds", {**past, "now": now})
            doom_unused(past["ids"], now=now)
        total += dropped
        if dropped < limit:
            return total


def doom_forgotten(now: datetime, limit: int) -> int:
    """Walk over all files, `limit` at a time, and doom those that nobody refers to; how many."""
    after, doomed = 0, 0
    while True:
        found = (
            fetch_one("files/read_unused_files", {"after": after, "limit": limit, "now": now}) or {}
        )
        if found.get("last") is None:
            return doomed
        after = found["last"]
        if found["ids"]:
            with transaction.atomic():
                doomed += doom_unused(found["ids"], now=now)
