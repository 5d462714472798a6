"""Archives finished workunits, drops their rows, keeps the ledger's days in order.

Claim, act, settle: workunits are claimed by a lease, written as compressed JSON lines that are on
disk for good before anything is dropped, and dropped if nobody woke them meanwhile.  A crash in
between archives a workunit twice, never not at all.
"""

from __future__ import annotations

import logging
from datetime import date, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection, transaction

from daemons import stories
from daemons.low_water import LowWater
from daemons.tally import WHOLE, Shard, Tally
from scheduler import sql, storage

log = logging.getLogger(__name__)

PACKAGE = "daemons.sql"
LEASE = timedelta(minutes=10)
#: How many workunits one transaction drops, for it to be short.
DROPPED_AT_ONCE = 500
#: How many days of the ledger are made before they begin.
DAYS_AHEAD = 14
_PREFIX = "ledger_entry_"
#: Where this process goes on, by its share of the work.
_queues: dict[Shard, LowWater[int]] = {}


def run_pass(*, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:
    """Archive and drop what is finished; make and drop days of the ledger."""
    made, dropped = tend_ledger(now=now)
    claimed = _claim(now=now, limit=limit, shard=shard)
    purged = _purge(claimed, now=now) if claimed else 0
    return Tally(
        seen=len(claimed),
        counts={
            "purged": purged,
            "woken meanwhile": len(claimed) - purged,
            "ledger days made": made,
            "ledger days dropped": dropped,
        },
        more=len(claimed) >= limit,
    )


def _claim(*, now: datetime, limit: int, shard: Shard) -> list[dict[str, Any]]:
    queue = _queues.setdefault(shard, LowWater(0))
    params = {
        "now": now,
        "finished_before": now - settings.PROJECT.purge_after,
        "lease_until": now + LEASE,
        "limit": limit,
        "shard_count": shard.count,
        "shard_index": shard.index,
    }
    rows = queue.read(
        lambda after: sql.fetch("claim_purgeable", {"after_id": after, **params}, PACKAGE)
    )
    if rows:
        queue.mark = max(row["id"] for row in rows)
    return rows


def _purge(claimed: list[dict[str, Any]], *, now: datetime) -> int:
    tokens = {row["id"]: row["lease_token"] for row in claimed}
    storage.append_archive(now.date(), stories.lines(sorted(tokens), now=now))
    ids = list(tokens)
    return sum(
        _drop({id_: tokens[id_] for id_ in ids[start : start + DROPPED_AT_ONCE]})
        for start in range(0, len(ids), DROPPED_AT_ONCE)
    )


def _drop(tokens: dict[int, int]) -> int:
    """Drop archived workunits that are still ours, in a short transaction; how many."""
    with transaction.atomic():
        sql.execute("forget_plans", {}, PACKAGE)
        sql.fetch_rows("lock_their_batches", {"ids": list(tokens)}, PACKAGE)
        locked = sql.fetch(
            "lock_archived",
            {"ids": list(tokens), "tokens": list(tokens.values())},
            PACKAGE,
        )
        ids = [row["id"] for row in locked]
        ((dropped,),) = sql.fetch_rows("drop_workunits", {"ids": ids}, PACKAGE)
        return int(dropped)


def tend_ledger(*, now: datetime) -> tuple[int, int]:
    """Make the coming days' partitions, drop days older than every living workunit."""
    row = sql.fetch_one("read_ledger_days", {}, PACKAGE) or {}
    existing = set(row.get("partitions") or ())
    today = now.date()
    wanted = [today + timedelta(days=ahead) for ahead in range(DAYS_AHEAD + 1)]
    missing = [day for day in wanted if _partition(day) not in existing]
    oldest = row.get("oldest")
    keep_from = min(today, oldest.date()) if oldest else today
    stale = sorted(name for name in existing if (day := _day_of(name)) and day < keep_from)
    made = sum(_change(_make_day, day) for day in missing)
    dropped = sum(_change(_drop_day, name) for name in stale)
    return made, dropped


def _change(change: Any, subject: date | str) -> bool:  # noqa: ANN401  one of the two below
    """Change a partition unless somebody is in the way: then the next pass does it."""
    try:
        with transaction.atomic():
            return bool(change(subject))
    except DatabaseError as error:
        reason = " ".join(str(error).split())
        log.warning("ledger day not changed", extra={"day": str(subject), "reason": reason})
        return False


def _make_day(day: date) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '2s'")
        # A day that has begun in the default partition stays there: rows are never moved.
        cursor.execute(
            "SELECT EXISTS (SELECT FROM ledger_entry_default WHERE at >= %s AND at < %s)",
            [_midnight(day), _midnight(day + timedelta(days=1))],
        )
        row = cursor.fetchone()
        if row and row[0]:
            return False
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {_partition(day)} PARTITION OF ledger_entry "
            f"FOR VALUES FROM ('{_midnight(day)}') TO ('{_midnight(day + timedelta(days=1))}')"
        )
    return True


def _drop_day(name: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '2s'")
        cursor.execute(f"DROP TABLE IF EXISTS {name}")
    return True


def _partition(day: date) -> str:
    return f"{_PREFIX}{day:%Y%m%d}"


def _day_of(name: str) -> date | None:
    """The day of a partition's name; None for the default partition."""
    digits = name.removeprefix(_PREFIX)
    if len(digits) != len("YYYYMMDD") or not digits.isdecimal():
        return None
    return date(int(digits[:4]), int(digits[4:6]), int(digits[6:]))


def _midnight(day: date) -> str:
    return f"{day.isoformat()} 00:00:00+00"
