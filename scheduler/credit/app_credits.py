"""Counts the credit of computers and teams by app, for their leaderboards.

Theory of operation.  The housekeeper adds the credit entries after a cursor to `HostAppCredit` and
`TeamAppCredit`, in chunks; a chunk and the new position of the cursor are one transaction, so that
a kill counts no entry twice.  The validator does not write these tables: it would have to update
two more rows for each result.

Ids are drawn before a transaction commits, so the entry after the last visible one can have a
smaller id.  Therefore each transaction takes a shared lock before it draws ids of entries, and the
end of the entries is read under the exclusive lock, which is held for this one statement: all
entries up to this end are visible.  A merge of two computers locks the cursor before it moves
entries.

The recent average is the sum of the grants in credit per day, each of which has lost half of its
weight after `HALF_LIFE_SECONDS` (docs/credit.md, "Recent averages").

The invariants `host_app_credit_is_its_sum` and `team_app_credit_is_its_sum` and `recompute_credit`
compare the totals with the entries.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Final

from django.db import transaction
from django.db.models import Max

from scheduler import sql
from scheduler.credit.rules.credit import HALF_LIFE_SECONDS
from scheduler.models import AppCreditCursor, CreditEntry

#: The maximum number of entries of a transaction.
CHUNK: Final = 10_000
#: The maximum number of entries of one call: about ten seconds, in which other chores wait.
MAX_ENTRIES: Final = 500_000
#: The tables of totals, with the column of a credit entry that names their holder.  A further table
#: needs a cursor of its own: the entries before this one would not be counted for it.
_TABLES: Final = (("host_app_credit", "host_id"), ("team_app_credit", "team_id"))
_DAY_SECONDS: Final = 86_400
#: The recent average, in credit per day, of one credit that was granted now.
_RATE: Final = math.log(2) * _DAY_SECONDS / HALF_LIFE_SECONDS


def count(*, now: datetime, chunk: int = CHUNK, limit: int = MAX_ENTRIES) -> int:
    """Count the entries that are not counted yet, oldest first; return their number.

    At most `limit` entries are counted, `chunk` in a transaction.  The number of statements does
    not depend on the number of computers, teams and apps.
    """
    end = _end_of_entries()
    counted = 0
    while counted < limit:
        size = min(chunk, limit - counted)
        added = _count_chunk(end, size, now=now)
        counted += added
        if added < size:
            break
    return counted


def lock_cursor() -> int:
    """Lock the cursor until the transaction ends; return the id up to which entries are counted."""
    row = sql.fetch_one("credit/lock_app_credit_cursor", {})
    return 0 if row is None else int(row["counted_to"])


def counted_to() -> int:
    """Return the id up to which entries are counted, without a lock."""
    cursor = AppCreditCursor.objects.first()
    return 0 if cursor is None else cursor.counted_to


def share_entry_lock() -> None:
    """Take the lock that each transaction takes before it inserts a credit entry."""
    sql.fetch("credit/share_entry_lock", {})


def _end_of_entries() -> int:
    """Return the id of the newest entry; all entries with smaller ids are visible."""
    with transaction.atomic():
        sql.fetch("credit/lock_entries", {})
        newest: int | None = CreditEntry.objects.aggregate(newest=Max("pk"))["newest"]
    return newest or 0


def _count_chunk(end: int, size: int, *, now: datetime) -> int:
    """Count at most `size` entries up to `end`, and move the cursor; return their number."""
    with transaction.atomic():
        after = lock_cursor()
        following = CreditEntry.objects.filter(pk__gt=after, pk__lte=end).order_by("pk")
        ids = list(following.values_list("pk", flat=True)[:size])
        if not ids:
            return 0
        params = {
            "after": after,
            "upto": ids[-1],
            "now": now,
            "half_life": HALF_LIFE_SECONDS,
            "rate": _RATE,
        }
        for table, holder in _TABLES:
            sql.execute("credit/count_app_credit", params, table=table, holder=holder)
        AppCreditCursor.objects.update(counted_to=ids[-1])
    return len(ids)
